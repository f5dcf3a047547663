/* Products of up to 4 rows of queries, or of weights, with a strip of a KV cache (kv_pages.h). */

#ifndef TRILEMMA_STRIPS_H
#define TRILEMMA_STRIPS_H

#include "kv_pages.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef uint8_t u8x32 __attribute__((vector_size(32)));
typedef int8_t i8x32 __attribute__((vector_size(32)));

/* Sums of neighbouring products: of words, and of bytes, unsigned times signed, whose sums must fit 16 bits. */
#ifdef __AVX2__
INLINE i32x8 word_pairs(i16x16 a, i16x16 b) { return (i32x8)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
INLINE i16x16 byte_pairs(u8x32 a, i8x32 b) { return (i16x16)_mm256_maddubs_epi16((__m256i)a, (__m256i)b); }
#else
INLINE i32x8 word_pairs(i16x16 a, i16x16 b) {
    const i32x8 x = (i32x8)a, y = (i32x8)b;
    return (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
}

INLINE i16x16 byte_pairs(u8x32 a, i8x32 b) {
    const i16x16 x = (i16x16)a, y = (i16x16)b;
    return (x & 255) * (y << 8 >> 8) + (i16x16)((u16x16)x >> 8) * (y >> 8);
}
#endif

/* The rows that are multiplied with strips, as the strips' format needs them. */
typedef struct {
    const float *x;       /* [G, n], or NULL */
    const int32_t *words; /* INT8: [G, n / 2], INT4: [G, n / 4] */
    const float *scale;   /* of the words: INT8: [G], INT4: [G, n / 32] */
    float base[4];        /* INT4: what every sum contains besides */
} rows_t;

/* Sums of enough rows in turn to hide the latency of a product. */
#define TURNS(G) ((G) == 1 ? 4 : (G) < 4 ? 2 : 1)

/* Two vectors, 16 lanes, of row i of the rows that share 8 words. */
INLINE void load_row(const uint8_t *w, int format, int i, vf *x) {
    for (int half = 0; half < 2; half++)
        if (format == FP32) x[half] = *(const vf *)(w + 64 * i + 32 * half);
        else if (format == FP16) x[half] = (vf)load_fp16(w + 32 * i + 16 * half);
        else {
            const vu u = *(const vu *)(w + 64 * (i % 8) + 32 * half);
            x[half] = (vf)(i < 8 ? u << 16 : u & 0xffff0000u);
        }
}

/* sum[g] = x[g] . the strip's n rows, a multiple of 64. Its lines are read once, and as many asked for from `next` on, so
   that reading and computing take time together. */
INLINE void float_strip(const float *x, const uint8_t *w, const uint8_t *next, int format, int G, int n, vf sum[4][2]) {
    const int rows = 16, byte = format == FP32 ? 1024 : 512;
    vf turns[4][4][2];
    for (int u = 0; u < TURNS(G); u++)
        for (int g = 0; g < G; g++) turns[u][g][0] = turns[u][g][1] = (vf){0};
    for (int first = 0; first < n; first += rows, w += byte, next += byte, x += rows)
#pragma GCC unroll 16
        for (int k = 0; k < rows; k++) {
            const int i = format == BF16 ? k / 2 + k % 2 * 8 : k; /* both rows of a word, one after the other */
            vf row[2];
            if (byte == 1024 || k % 2 == 0) __builtin_prefetch(next + byte / rows * k);
            load_row(w, format, i, row);
            for (int g = 0; g < G; g++)
                for (int half = 0; half < 2; half++) turns[k % TURNS(G)][g][half] += x[g * n + i] * row[half];
        }
    for (int g = 0; g < G; g++)
        for (int half = 0; half < 2; half++) {
            sum[g][half] = turns[0][g][half];
            for (int u = 1; u < TURNS(G); u++) sum[g][half] += turns[u][g][half];
        }
}

INLINE i32x8 same(int32_t x) { return x - (i32x8){0}; }

INLINE void int8_strip(const rows_t *r, const uint8_t *w, const uint8_t *next, int G, int n, vf sum[4][2]) {
    const int32_t *x = r->words;
    i32x8 total[4][2];
    for (int g = 0; g < G; g++) total[g][0] = total[g][1] = (i32x8){0};
    for (int first = 0; first < n; first += 32, x += 16)
#pragma GCC unroll 2
        for (int j = 0; j < 8; j++, w += 64, next += 64) {
            i16x16 even[2], odd[2];
            __builtin_prefetch(next);
            for (int half = 0; half < 2; half++) {
                const i16x16 u = LOAD(i16x16, w + 32 * half);
                even[half] = u << 8 >> 8;
                odd[half] = u >> 8;
            }
            for (int g = 0; g < G; g++) {
                const i16x16 a = (i16x16)same(x[g * n / 2 + j]), b = (i16x16)same(x[g * n / 2 + 8 + j]);
                for (int half = 0; half < 2; half++)
                    total[g][half] += word_pairs(even[half], a) + word_pairs(odd[half], b);
            }
        }
    for (int g = 0; g < G; g++)
        for (int half = 0; half < 2; half++) sum[g][half] = __builtin_convertvector(total[g][half], vf) * r->scale[g];
}

/* Products of bytes with the lower or the upper nibbles of a line, added to words or, of the first line, set. */
INLINE void int4_line(const int32_t *x, int pitch, const uint8_t *line, int part, int is_signed, int G, int is_first,
                      i16x16 words[4][2]) {
    u8x32 u[2];
    for (int half = 0; half < 2; half++) u[half] = (u8x32)((LOAD(u16x16, line + 32 * half) >> 4 * part) & 0x0f0f);
    for (int g = 0; g < G; g++) {
        const i8x32 a = (i8x32)same(x[g * pitch]);
        for (int half = 0; half < 2; half++) {
            const i16x16 products = is_signed ? byte_pairs(u[half], a) : byte_pairs((u8x32)a, (i8x32)u[half]);
            words[g][half] = is_first ? products : words[g][half] + products;
        }
    }
}

/* 16 products of a byte and a nibble fit 16 bits, signed or not: 16 * 127 * 15, 16 * 255 * 15. */
INLINE void int4_strip(const rows_t *r, const uint8_t *w, const uint8_t *next, int is_signed, int G, int n, vf sum[4][2]) {
    const int32_t *x = r->words;
    const float *scale = r->scale;
    for (int g = 0; g < G; g++) sum[g][0] = sum[g][1] = splat(r->base[g]);
    for (int first = 0; first < n; first += 64, w += 512, next += 512, scale += 2)
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++, x += 8) {
            i16x16 words[4][2];
            int4_line(x, n / 4, w, part, is_signed, G, 1, words);
            if (!part) __builtin_prefetch(next);
#pragma GCC unroll 1 /* sums would not stay in registers */
            for (int j = 1; j < 8; j++) {
                int4_line(x + j, n / 4, w + 64 * j, part, is_signed, G, 0, words);
                if (!part) __builtin_prefetch(next + 64 * j);
            }
            for (int g = 0; g < G; g++)
                for (int half = 0; half < 2; half++) {
                    const u32x8 two = (u32x8)words[g][half];
                    const i32x8 total = is_signed ? word_pairs(words[g][half], 1 - (i16x16){0})
                                                  : (i32x8)((two & 0xffff) + (two >> 16));
                    sum[g][half] += __builtin_convertvector(total, vf) * scale[g * n / 32 + part];
                }
        }
}

INLINE void strip_products(const rows_t *r, const uint8_t *w, const uint8_t *next, int format, int is_signed, int G, int n,
                           vf sum[4][2]) {
    if (format == INT8) int8_strip(r, w, next, G, n, sum);
    else if (format == INT4) int4_strip(r, w, next, is_signed, G, n, sum);
    else float_strip(r->x, w, next, format, G, n, sum);
}

#endif
