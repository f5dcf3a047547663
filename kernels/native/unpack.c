/* Weights as fp32, and activations rounded as the products of linear.c round them: for the many rows of a prompt. */

#include "native.h"

/* n_in floats of row r; blocks hold the words of 16 rows in turn. */
INLINE void unpack_int8(const linear_t *linear, int64_t r, float *out) {
    const int n_in = linear->n_in, lane = r % BLOCK;
    const uint8_t *w = (const uint8_t *)linear->weight + (r - lane) * n_in + 4 * lane;
    const uint16_t *fp16 = (const uint16_t *)linear->scale + (r - lane) * (n_in / GROUP_INT8) + lane;
    float scale = linear->group ? 0 : ((const float *)linear->scale)[r];
    for (int i = 0; i < n_in; i += 8) {
        if (linear->group && i % GROUP_INT8 == 0) scale = fp16_as_float(fp16[(int64_t)i / GROUP_INT8 * BLOCK]);
        const uint32_t low = LOAD(uint32_t, w + (int64_t)i / 4 * 64), high = LOAD(uint32_t, w + (int64_t)i / 4 * 64 + 64);
        for (int lane = 0; lane < 8; lane += LANES) {
            const uint32_t words[8] = {low, low, low, low, high, high, high, high}, shift[8] = {0, 16, 8, 24, 0, 16, 8, 24};
            const u32v u = (LANES == 8 ? LOAD(u32v, words) : words[lane] - (u32v){0}) >> LOAD(u32v, shift + lane);
            const f32v x = scale * __builtin_convertvector((i32v)(u & 255) - 128, f32v);
            memcpy(out + i + lane, &x, sizeof x);
        }
    }
}

INLINE void unpack_int4(const linear_t *linear, int64_t r, float *out) {
    const int n_in = linear->n_in, group = linear->group, n_groups = (n_in + group - 1) / group, lane = r % BLOCK;
    const uint8_t *w = (const uint8_t *)linear->weight + (r - lane) / 2 * n_groups * group + 4 * lane;
    const uint16_t *fp16 = (const uint16_t *)linear->scale + 2 * ((r - lane) * n_groups + lane);
    float scale = 0, minimum = 0;
    for (int i = 0; i < n_in; i += 8) {
        if (i % group == 0) {
            scale = fp16_as_float(fp16[(int64_t)i / group * 2 * BLOCK]);
            minimum = fp16_as_float(fp16[(int64_t)i / group * 2 * BLOCK + 1]);
        }
        const uint32_t shift[8] = {0, 16, 4, 20, 8, 24, 12, 28};
        const u32v u = LOAD(uint32_t, w + (int64_t)i / 8 * 64) - (u32v){0};
        for (int lane = 0; lane < 8; lane += LANES) {
            const i32v q = (i32v)(u >> LOAD(u32v, shift + lane) & 15);
            const f32v x = scale * __builtin_convertvector(q, f32v) + minimum;
            memcpy(out + i + lane, &x, sizeof x);
        }
    }
}

INLINE void unpack_float(const linear_t *linear, int64_t r, float *out) {
    const int n_in = linear->n_in, format = linear->format, byte = format == FP32 ? 4 : 2;
    const uint8_t *w = (const uint8_t *)linear->weight + r * n_in * byte;
    for (int i = 0; i < n_in; i += LANES) {
        f32v x = format == FP32 ? LOAD(f32v, w + i * byte) : load_fp16(w + i * byte);
        if (format == BF16) x = (f32v)(load_wide(w + i * byte) << 16);
        memcpy(out + i, &x, sizeof x);
    }
}

/* Rows of the weights as fp32 [n, n_in]: those listed in index, or first, first + 1 and so on where that is NULL. */
void trilemma_rows(const linear_t *linear, const int64_t *index, int64_t first, int n, float *out, int n_threads) {
    (void)n_threads;
#pragma omp parallel for num_threads(n_threads) schedule(static) if (n > 1)
    for (int i = 0; i < n; i++) {
        const int64_t r = index ? index[i] : first + i;
        float *row = out + (int64_t)i * linear->n_in;
        if (linear->format == INT8) unpack_int8(linear, r, row);
        else if (linear->format == INT4) unpack_int4(linear, r, row);
        else unpack_float(linear, r, row);
    }
}

/* Activations x [n, n_in] rounded to 8 bits of their group's scale, as fp32. */
void trilemma_rounded(const linear_t *linear, const float *x, int n, float *out, int n_threads) {
    const int n_in = linear->n_in, group = activation_group(linear);
    (void)n_threads;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int i = 0; i < n; i++)
        for (int first = 0; first < n_in; first += group) {
            const int length = n_in - first < group ? n_in - first : group;
            int16_t q[PAD];
            int32_t sum;
            const float scale = round_group(x + (int64_t)i * n_in + first, length, q, &sum);
            for (int k = 0; k < length; k++) out[(int64_t)i * n_in + first + k] = scale * q[k];
        }
}
