/* Vectors as long as the instruction set at hand has them, and what compilers do not make of generic ones by themselves.

   Eight lanes of 32 bits with AVX2, four elsewhere (SSE, NEON): longer ones the compilers keep in memory. Each function
   has a generic form, beside which the others are only faster; floats may differ in the last bit where sums of products
   are fused. */

#ifndef TRILEMMA_VECTORS_H
#define TRILEMMA_VECTORS_H

#include <stdint.h>
#include <string.h>
#ifdef TRILEMMA_GENERIC /* to test the generic forms */
#undef __AVX2__
#undef __SSSE3__
#undef __SSE2__
#undef __F16C__
#undef __aarch64__
#undef __ARM_FEATURE_DOTPROD
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifdef __AVX2__
#define LANES 8
#else
#define LANES 4
#endif
#define VECTOR_BYTE (4 * LANES)
#define PARTS (16 / LANES) /* vectors of 16 lanes */

typedef float f32v __attribute__((vector_size(VECTOR_BYTE)));
typedef int32_t i32v __attribute__((vector_size(VECTOR_BYTE)));
typedef uint32_t u32v __attribute__((vector_size(VECTOR_BYTE)));
typedef int16_t i16v __attribute__((vector_size(VECTOR_BYTE)));
typedef uint16_t u16v __attribute__((vector_size(VECTOR_BYTE)));
typedef int8_t i8v __attribute__((vector_size(VECTOR_BYTE)));
typedef uint8_t u8v __attribute__((vector_size(VECTOR_BYTE)));
typedef uint16_t u16h __attribute__((vector_size(VECTOR_BYTE / 2))); /* for as many lanes as f32v */
typedef float f32x4 __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))
#define LOAD(type, address) (__extension__({ type v_; memcpy(&v_, (address), sizeof v_); v_; }))

INLINE float sum_lanes(f32v v) {
    f32x4 part[LANES / 4];
    memcpy(part, &v, sizeof v);
    for (int i = 1; i < LANES / 4; i++) part[0] += part[i];
    return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
}

/* As many 16-bit integers as a vector has lanes, each in 32 bits. GCC 12 takes a detour for it. */
INLINE u32v load_wide(const void *p) {
#if defined(__AVX2__)
    return (u32v)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__SSE2__)
    return (u32v)_mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)p), _mm_setzero_si128());
#elif defined(__aarch64__)
    return (u32v)vmovl_u16(vld1_u16((const uint16_t *)p));
#else
    return __builtin_convertvector(LOAD(u16h, p), u32v);
#endif
}

/* fp16 without its infinities and NaNs: the exponent moves into place, then 2^112 corrects its bias, which is exact.
   Where the processor converts by itself, that takes a built-in function: GCC 12 does so one by one. */
INLINE f32v load_fp16(const void *p) {
#if defined(__F16C__) && LANES == 8
    return (f32v)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined(__F16C__)
    return (f32v)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p));
#elif defined(__aarch64__)
    return (f32v)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p)));
#else
    return (f32v)(((i32v)load_wide(p) << 16 >> 3) & (int32_t)0x8fffe000) * 0x1p112f;
#endif
}

/* The larger of each two. */
INLINE f32v maximum(f32v a, f32v b) {
#if defined(__AVX2__)
    return (f32v)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (f32v)_mm_max_ps((__m128)a, (__m128)b);
#elif defined(__aarch64__)
    return (f32v)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
    const i32v larger = a > b;
    return (f32v)(((i32v)a & larger) | ((i32v)b & ~larger));
#endif
}

INLINE float largest(f32v x) {
#if defined(__AVX2__)
    __m128 m = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
#elif defined(__SSE2__)
    const __m128 m = _mm_max_ps((__m128)x, _mm_movehl_ps((__m128)x, (__m128)x));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
#elif defined(__aarch64__)
    return vmaxvq_f32((float32x4_t)x);
#else
    float m = x[0];
    for (int i = 1; i < LANES; i++) m = x[i] > m ? x[i] : m;
    return m;
#endif
}

/* Sums of neighbouring products of words: of a and b, and of c and d. */
INLINE i32v word_pairs(i16v a, i16v b, i16v c, i16v d) {
#if defined(__AVX2__)
    return (i32v)_mm256_madd_epi16((__m256i)a, (__m256i)b) + (i32v)_mm256_madd_epi16((__m256i)c, (__m256i)d);
#elif defined(__SSE2__)
    return (i32v)_mm_madd_epi16((__m128i)a, (__m128i)b) + (i32v)_mm_madd_epi16((__m128i)c, (__m128i)d);
#elif defined(__aarch64__)
    const int16x8_t w = (int16x8_t)a, x = (int16x8_t)b, y = (int16x8_t)c, z = (int16x8_t)d;
    const int32x4_t low = vmlal_s16(vmull_s16(vget_low_s16(w), vget_low_s16(x)), vget_low_s16(y), vget_low_s16(z));
    return (i32v)vpaddq_s32(low, vmlal_high_s16(vmull_high_s16(w, x), y, z));
#else
    const i32v w = (i32v)a, x = (i32v)b, y = (i32v)c, z = (i32v)d;
    return (w << 16 >> 16) * (x << 16 >> 16) + (w >> 16) * (x >> 16) + (y << 16 >> 16) * (z << 16 >> 16) +
           (y >> 16) * (z >> 16);
#endif
}

/* Sums of neighbouring words, signed or not. */
INLINE i32v word_sums(i16v words, int is_signed) {
    const u32v two = (u32v)words;
    if (!is_signed) return (i32v)((two & 0xffff) + (two >> 16));
#if defined(__AVX2__)
    return (i32v)_mm256_madd_epi16((__m256i)words, (__m256i)(1 - (i16v){0}));
#elif defined(__SSE2__)
    return (i32v)_mm_madd_epi16((__m128i)words, (__m128i)(1 - (i16v){0}));
#else
    return ((i32v)two << 16 >> 16) + ((i32v)two >> 16);
#endif
}

/* Sums of products of bytes, signed or not, with nibbles: of two neighbours each in words, which must hold what is added
   up, or of four with the instructions that processors have for it. */
#ifdef __ARM_FEATURE_DOTPROD
typedef i32v byte_sums;

INLINE byte_sums add_bytes(byte_sums sum, u8v nibbles, u8v bytes, int is_signed) {
    if (is_signed) return (i32v)vdotq_s32((int32x4_t)sum, (int8x16_t)nibbles, (int8x16_t)bytes);
    return (i32v)vdotq_u32((uint32x4_t)sum, (uint8x16_t)nibbles, (uint8x16_t)bytes);
}

INLINE i32v whole_sums(byte_sums sum, int is_signed) { return (void)is_signed, sum; }
#else
typedef i16v byte_sums;

INLINE byte_sums add_bytes(byte_sums sum, u8v nibbles, u8v bytes, int is_signed) {
#if defined(__AVX2__)
    const __m256i n = (__m256i)nibbles, b = (__m256i)bytes; /* unsigned times signed */
    return sum + (i16v)(is_signed ? _mm256_maddubs_epi16(n, b) : _mm256_maddubs_epi16(b, n));
#elif defined(__SSSE3__)
    const __m128i n = (__m128i)nibbles, b = (__m128i)bytes;
    return sum + (i16v)(is_signed ? _mm_maddubs_epi16(n, b) : _mm_maddubs_epi16(b, n));
#elif defined(__aarch64__)
    if (is_signed) {
        const int8x16_t n = (int8x16_t)nibbles, b = (int8x16_t)bytes;
        return sum + (i16v)vpaddq_s16(vmull_s8(vget_low_s8(n), vget_low_s8(b)), vmull_high_s8(n, b));
    }
    const uint8x16_t n = (uint8x16_t)nibbles, b = (uint8x16_t)bytes;
    return sum + (i16v)vpaddq_u16(vmull_u8(vget_low_u8(n), vget_low_u8(b)), vmull_high_u8(n, b));
#else
    const i16v n = (i16v)nibbles, b = (i16v)bytes;
    return sum + (n & 255) * (is_signed ? b << 8 >> 8 : b & 255) +
           (i16v)((u16v)n >> 8) * (is_signed ? b >> 8 : (i16v)((u16v)b >> 8));
#endif
}

INLINE i32v whole_sums(byte_sums sum, int is_signed) { return word_sums(sum, is_signed); }
#endif

#endif
