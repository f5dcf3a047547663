/* Kernels for the decoding of one token: products of a matrix with one row, attention over a cache, a whole decoder.

   Vectors are the generic ones of GCC and Clang: written once, compiled for the instruction set at hand. Loops over
   floats are left to the compiler (`omp simd`). Integer products are written out, since the compilers widen bytes to
   words in a way that costs three times as much. */

#ifndef TRILEMMA_NATIVE_H
#define TRILEMMA_NATIVE_H

#include <omp.h>

#include "vectors.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the packed formats are little-endian"
#endif

enum { FP32, BF16, FP16, INT8, INT4 }; /* formats of weights and of caches, as in kernels/native/library.py */

/* y = W x + bias. FP32, BF16, FP16: weight [n_out, n_in].
   INT8, INT4: blocks of 16 rows, [blocks, words of a row, 16 rows] 32-bit words that hold 4 or 8 inputs in a row: of two
   16-bit halves, the first has the even ones from its low end on. Rows are padded to a whole number of blocks.
   INT8: bytes are weights plus 128; scale fp32 [padded rows] where group = 0, else fp16 [blocks, n_in / 32, 16 rows].
   INT4: W = scale * nibble + minimum, fp16 pairs of them [blocks, padded inputs / group, 16 rows]. */
typedef struct {
    const void *weight, *scale;
    const float *bias; /* may be NULL */
    int32_t format, group, n_in, n_out;
} linear_t;

/* One row of activations: as it is, and rounded to 8 bits in groups where the format multiplies integers. */
typedef struct {
    const float *x;
    int16_t *q;   /* as the format's lanes need it; BF16: floats */
    float *scale; /* per group of inputs, times 2^56 */
    float *sum;   /* per group: sum of the rounded inputs, times 2^56 */
} row_t;

enum { GROUP_INT8 = 32, BLOCK = 16, PAD = 128 };

#define ROW_BUFFERS(n) int16_t row_q_[2 * (n) + PAD]; float row_scale_[(n) / 32 + 16], row_sum_[(n) / 32 + 16]
#define ROW(x_) ((row_t){(x_), row_q_, row_scale_, row_sum_})

void round_row(const linear_t *linear, row_t *row);
void linear_rows(const linear_t *linear, const row_t *row, int first, int last, float *y);

/* The part of n items at which a thread's share begins; shares are whole blocks of rows, but for the last. */
INLINE int share_of(int n, int thread, int n_threads) {
    return thread == n_threads ? n : (int)((int64_t)(n / BLOCK) * thread / n_threads * BLOCK);
}

INLINE float fp16_as_float(uint16_t half) {
    const uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    const float magnitude = LOAD(float, &bits) * 0x1p112f;
    return half & 0x8000 ? -magnitude : magnitude;
}

INLINE int activation_group(const linear_t *linear) { return linear->format == INT4 ? linear->group : GROUP_INT8; }

/* Round n activations to -127..127 times the scale that is returned; sum is that of the integers. */
INLINE float round_group(const float *x, int n, int16_t *q, int32_t *sum) {
    float largest = 0;
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < n; i++) {
        const float magnitude = x[i] < 0 ? -x[i] : x[i];
        largest = magnitude > largest ? magnitude : largest;
    }
    const float inverse = largest > 0 ? 127 / largest : 0;
    int32_t total = 0;
#pragma omp simd reduction(+ : total)
    for (int i = 0; i < n; i++) {
        const int32_t rounded = (int32_t)((x[i] * inverse + 12582912.0f) - 12582912.0f);
        q[i] = (int16_t)rounded;
        total += rounded;
    }
    *sum = total;
    return largest / 127;
}

/* e^x for x <= 0, relative error below 2e-7; 0 below -87. After Cephes' expf: 2^n times a polynomial. */
INLINE float exp_negative(float x) {
    float bounded = x < -87.0f ? -87.0f : x;
    float n = bounded * 1.44269504f + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &n, 4);
    n -= 12582912.0f;
    float r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t exponent = (bits - 0x4b400000 + 127) << 23;
    float scale;
    memcpy(&scale, &exponent, 4);
    return x < -87.0f ? 0.0f : p * scale;
}

#endif
