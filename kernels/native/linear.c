/* A matrix times one row of activations, rows first..last - 1 of the result. */

#include "native.h"

/* Scales are read as fp16 bits moved into a float (too small by 2^112) and meet activations' scales that are too large
   by 2^56: neither overflows, and the product of a row is corrected once, by 2^56. */
#define CORRECTION 0x1p56f

static int activation_group(const linear_t *linear) { return linear->format == INT4 ? linear->group : GROUP_INT8; }

/* Round each group of the row to -127..127 of its own scale. */
void round_row(const linear_t *linear, row_t *row) {
    if (linear->format < INT8) return;
    const int n = linear->n_in, group = activation_group(linear), n_groups = n / group;
    for (int g = 0; g < n_groups; g++) {
        const float *x = row->x + g * group;
        int16_t *q = row->q + g * group;
        float largest = 0;
#pragma omp simd reduction(max : largest)
        for (int i = 0; i < group; i++) {
            float magnitude = x[i] < 0 ? -x[i] : x[i];
            largest = magnitude > largest ? magnitude : largest;
        }
        const float inverse = largest > 0 ? 127 / largest : 0;
        int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < group; i++) {
            int32_t rounded = (int32_t)((x[i] * inverse + 12582912.0f) - 12582912.0f);
            q[i] = (int16_t)rounded;
            sum += rounded;
        }
        row->scale[g] = largest / 127 * CORRECTION;
        row->sum[g] = row->scale[g] * (float)sum;
        if (linear->format == INT8) { /* its lanes hold even and odd inputs */
            int16_t even_odd[GROUP_INT8];
            for (int i = 0; i < 16; i++) {
                even_odd[i] = q[2 * i];
                even_odd[16 + i] = q[2 * i + 1];
            }
            memcpy(q, even_odd, sizeof even_odd);
        }
    }
    memset(row->q + n, 0, PAD * sizeof *row->q);
    for (int g = n_groups; g < n_groups + 16; g++) row->scale[g] = row->sum[g] = 0;
}

/* Sum neighbouring words; those of 4-bit products stay small enough to be summed as words, in the upper half. */
INLINE f32x8 pairs(i16x16 words) {
    i32x8 w = (i32x8)words;
    return __builtin_convertvector((w << 16 >> 16) + (w >> 16), f32x8);
}

INLINE f32x8 small_pairs(i16x16 words) {
    i32x8 w = (i32x8)words;
    return __builtin_convertvector((w + (w << 16)) & (int32_t)0xffff0000, f32x8); /* too large by 2^16 */
}

/* The scales of a row of INT4 weights times those of the activations; returns the share of the minima. */
INLINE float scale_int4(const int32_t *pairs_fp16, const row_t *row, int n_groups, float *scale) {
    f32x8 minima = {0};
    for (int g = 0; g < n_groups; g += 8) {
        i32x8 u = LOAD(i32x8, pairs_fp16 + g);
        f32x8 s = (f32x8)((u << 16 >> 3) & (int32_t)0x8fffe000) * LOAD(f32x8, row->scale + g) * 0x1p-16f;
        memcpy(scale + g, &s, sizeof s);
        minima += (f32x8)((u >> 3) & (int32_t)0x8fffe000) * LOAD(f32x8, row->sum + g);
    }
    return sum8(minima);
}

#define NIBBLE(v, k) ((i16x16)((v) >> 4 * (k) & 15))
#define INPUTS(k) LOAD(i16x16, x + 16 * (k))

/* `n` rows at once, so that the activations are loaded once for all of them; `n` and `group` are constants. */
INLINE void int4_block(const linear_t *linear, const row_t *row, int first, float *y, const int n, const int group) {
    const int n_units = (linear->n_in + 63) / 64, n_groups = n_units * 64 / group;
    const uint8_t *weight = (const uint8_t *)linear->weight + (size_t)first * n_units * 32;
    const int32_t *scales = (const int32_t *)linear->scale + (size_t)first * n_groups;
    float scale[n][n_groups + 8], minima[n];
    f32x8 sum[4] = {{0}};
    for (int k = 0; k < n; k++) minima[k] = scale_int4(scales + (size_t)k * n_groups, row, n_groups, scale[k]);
    const int step = group < 64 ? 1 : group / 64;
    for (int u = 0; u < n_units; u += step) {
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) {
            const uint8_t *w = weight + ((size_t)k * n_units + u) * 32;
            const int16_t *x = row->q + u * 64;
            u16x16 v = LOAD(u16x16, w);
            i16x16 low = NIBBLE(v, 0) * INPUTS(0) + NIBBLE(v, 1) * INPUTS(1);
            i16x16 high = NIBBLE(v, 2) * INPUTS(2) + NIBBLE(v, 3) * INPUTS(3);
            if (group == 32) {
                sum[k] += scale[k][2 * u] * small_pairs(low) + scale[k][2 * u + 1] * small_pairs(high);
                continue;
            }
            low += high;
            if (group == 128) {
                x += 64;
                v = LOAD(u16x16, w + 32);
                low += NIBBLE(v, 0) * INPUTS(0) + NIBBLE(v, 1) * INPUTS(1);
                low += NIBBLE(v, 2) * INPUTS(2) + NIBBLE(v, 3) * INPUTS(3);
            }
            sum[k] += scale[k][u / step] * small_pairs(low);
        }
    }
    for (int k = 0; k < n; k++) y[k] = (sum8(sum[k]) + minima[k]) * CORRECTION;
}

INLINE void int8_block(const linear_t *linear, const row_t *row, int first, float *y, const int n) {
    const int n_in = linear->n_in, n_groups = n_in / GROUP_INT8;
    const int8_t *weight = (const int8_t *)linear->weight + (size_t)first * n_in;
    float scale[n][n_groups + 8];
    f32x8 sum[4] = {{0}};
    for (int k = 0; k < n; k++) {
        if (linear->group) {
            const uint16_t *fp16 = (const uint16_t *)linear->scale + (size_t)(first + k) * n_groups;
#pragma omp simd
            for (int g = 0; g < n_groups; g++) {
                uint32_t bits = (uint32_t)(fp16[g] & 0x7fff) << 13;
                float s;
                memcpy(&s, &bits, 4);
                scale[k][g] = s * row->scale[g];
            }
        } else {
            memcpy(scale[k], row->scale, n_groups * sizeof(float));
        }
    }
    for (int g = 0; g < n_groups; g++) {
        const int16_t *x = row->q + g * GROUP_INT8;
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) {
            i16x16 v = LOAD(i16x16, weight + (size_t)k * n_in + g * GROUP_INT8);
            sum[k] += scale[k][g] * pairs((v << 8 >> 8) * INPUTS(0) + (v >> 8) * INPUTS(1));
        }
    }
    for (int k = 0; k < n; k++) {
        y[k] = sum8(sum[k]) * (linear->group ? CORRECTION : ((const float *)linear->scale)[first + k] / CORRECTION);
    }
}

INLINE void float_block(const linear_t *linear, const row_t *row, int first, float *y, const int n, const int format) {
    const int n_in = linear->n_in;
    const size_t offset = (size_t)first * n_in;
    f32x8 sum[4] = {{0}};
    for (int i = 0; i < n_in; i += 8) {
        const f32x8 x = LOAD(f32x8, row->x + i);
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) {
            const size_t at = offset + (size_t)k * n_in + i;
            if (format == FP32) sum[k] += x * LOAD(f32x8, (const float *)linear->weight + at);
            if (format == BF16) sum[k] += x * load_bf16((const uint16_t *)linear->weight + at);
            if (format == FP16) sum[k] += x * load_fp16((const uint16_t *)linear->weight + at);
        }
    }
    for (int k = 0; k < n; k++) y[k] = sum8(sum[k]);
}

/* Apply a block function to rows first..last - 1, `n` at a time and the rest one by one. */
#define FOR_ROWS(n, block, ...)                                                          \
    do {                                                                                 \
        int r = first;                                                                   \
        for (; r + (n) <= last; r += (n)) block(linear, row, r, y + r - first, (n)__VA_ARGS__); \
        for (; r < last; r++) block(linear, row, r, y + r - first, 1 __VA_ARGS__);       \
    } while (0)

void linear_rows(const linear_t *linear, const row_t *row, int first, int last, float *y) {
    switch (linear->format) {
        case FP32: FOR_ROWS(4, float_block, , FP32); break;
        case BF16: FOR_ROWS(4, float_block, , BF16); break;
        case FP16: FOR_ROWS(4, float_block, , FP16); break;
        case INT8: FOR_ROWS(4, int8_block); break;
        default:
            if (linear->group == 32) FOR_ROWS(2, int4_block, , 32);
            else if (linear->group == 64) FOR_ROWS(4, int4_block, , 64);
            else FOR_ROWS(4, int4_block, , 128);
    }
    if (linear->bias)
        for (int r = first; r < last; r++) y[r - first] += linear->bias[r];
}

/* Multiply n_rows rows, x [n_rows, n_in] fp32 to y [n_rows, n_out] fp32. */
void trilemma_linear(const linear_t *linear, const float *x, int n_rows, float *y, int n_threads) {
    const int n_out = linear->n_out;
#pragma omp parallel num_threads(n_threads)
    {
        const int thread = omp_get_thread_num(), n = omp_get_num_threads();
        const int first = share_of(n_out, thread, n), last = share_of(n_out, thread + 1, n);
        ROW_BUFFERS(linear->n_in);
        for (int i = 0; i < n_rows; i++) {
            row_t row = ROW(x + (size_t)i * linear->n_in);
            round_row(linear, &row);
            linear_rows(linear, &row, first, last, y + (size_t)i * n_out + first);
        }
    }
}
