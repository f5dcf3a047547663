/* Writing tokens into a paged KV cache and reading them back (kv_pages.h). */

#include "kv_values.h"

INLINE float largest_magnitude(const float *x, int n) {
    float m = 0;
    for (int i = 0; i < n; i++) {
        const float a = x[i] < 0 ? -x[i] : x[i];
        m = a > m ? a : m;
    }
    return m;
}

/* Make a page of a head the one that is being filled. */
static void open_page(kv_layer *c, int h, int page, int slot) {
    const int dim = c->head_dim, full = slot == 0 && c->open_page[h] == page - 1;
    if (c->open_page[h] == page) return;
    const int64_t at = (int64_t)h * c->capacity + (full ? page - 1 : page);
    uint16_t *open = c->open + (int64_t)h * dim * PAGE, *scale = (uint16_t *)c->k_scale + at * 2 * dim;
    uint8_t *block = c->k + at * block_byte(INT4, dim);
    if (full) /* quantise the page before */
        for (int d = 0; d < dim; d += 64) {
            float x[PAGE][64];
            for (int t = 0; t < PAGE; t++)
                for (int i = 0; i < 64; i++) x[t][i] = bf16_value(open[key_place(BF16, dim, t, d + i)]);
            put_keys_int4(x[0], block, dim, d, scale);
        }
    else if (slot) /* the cache was cut back into an earlier page: open that again */
        for (int t = 0; t < PAGE; t++) {
            float x[MAX_DIM];
            read_key(c, INT4, at, h, page, t, x);
            for (int d = 0; d < dim; d++) open[key_place(BF16, dim, t, d)] = to_bf16(x[d]);
        }
    c->open_page[h] = page;
}

INLINE void put_float(uint8_t *block, int format, int at, float x) {
    if (format == FP32) ((float *)block)[at] = x;
    else ((uint16_t *)block)[at] = format == BF16 ? to_bf16(x) : to_fp16(x);
}

INLINE float scale_of(const float *x, int n) {
    const float scale = largest_magnitude(x, n) / 127;
    return scale < 1e-30f ? 1e-30f : scale;
}

INLINE void put_key(kv_layer *c, int format, int h, int page, int t, const float *x) {
    const int dim = c->head_dim;
    const int64_t at = (int64_t)h * c->capacity + page;
    uint8_t *block = c->k + at * block_byte(format, dim);
    if (format == INT8) {
        const float scale = ((float *)c->k_scale)[at * PAGE + t] = scale_of(x, dim);
        for (int d = 0; d < dim; d++) block[key_place(INT8, dim, t, d)] = (uint8_t)nearest(x[d] / scale);
    } else if (format == INT4) {
        uint16_t *open = c->open + (int64_t)h * dim * PAGE;
        for (int d = 0; d < dim; d++) open[key_place(BF16, dim, t, d)] = to_bf16(x[d]);
    } else
        for (int d = 0; d < dim; d++) put_float(block, format, key_place(format, dim, t, d), x[d]);
}

INLINE void put_value(kv_layer *c, int format, int h, int page, int t, const float *x) {
    const int dim = c->head_dim;
    const int64_t at = (int64_t)h * c->capacity + page;
    uint8_t *block = c->v + at * block_byte(format, dim);
    if (format == INT8) {
        const float scale = ((float *)c->v_scale)[at * PAGE + t] = scale_of(x, dim);
        for (int d = 0; d < dim; d++) block[value_place(INT8, t, d)] = (uint8_t)nearest(x[d] / scale);
    } else if (format == INT4) {
        uint16_t *scale = (uint16_t *)c->v_scale + at * 2 * PAGE + t;
        float low, high;
        limits(x, dim, &low, &high);
        const grid g = grid_of(low, high, scale, scale + PAGE);
        for (int d = 0; d < dim; d++) put_nibble(block, value_place(INT4, t, d), code(x[d], g));
    } else
        for (int d = 0; d < dim; d++) put_float(block, format, value_place(format, t, d), x[d]);
}

/* One copy of a function's body for each format. */
#define FOR_FORMAT(format, call)                  \
    switch (format) {                             \
    case FP32: call(FP32); break;                 \
    case BF16: call(BF16); break;                 \
    case FP16: call(FP16); break;                 \
    case INT8: call(INT8); break;                 \
    default: call(INT4);                          \
    }

/* Write the key and the value [head_dim] of one token and KV head. Heads may be written by several threads. */
void kv_write_head(kv_layer *c, int position, const float *k, const float *v, int head) {
    const int page = position / PAGE, t = position % PAGE;
    if (c->format == INT4) open_page(c, head, page, t);
#define PUT(F) put_key(c, F, head, page, t, k), put_value(c, F, head, page, t, v)
    FOR_FORMAT(c->format, PUT)
}

/* Write tokens start..start + n - 1 of all heads. kv: keys, then values; strides in floats, channels are contiguous. */
void kv_write(kv_layer *c, const float *kv, int64_t kv_stride, int64_t head_stride, int64_t token_stride, int start, int n) {
    for (int h = 0; h < c->n_heads; h++)
        for (int i = 0; i < n; i++) {
            const float *k = kv + h * head_stride + i * token_stride;
            kv_write_head(c, start + i, k, k + kv_stride, h);
        }
}

INLINE float value_at(const kv_layer *c, int format, int64_t at, int t, int d) {
    const float x = element(c->v + at * block_byte(format, c->head_dim), format, value_place(format, t, d));
    if (format == INT8) return x * ((const float *)c->v_scale)[at * PAGE + t];
    const uint16_t *scale = (const uint16_t *)c->v_scale + at * 2 * PAGE + t;
    return format == INT4 ? x * fp16_value(scale[0]) + fp16_value(scale[PAGE]) : x;
}

INLINE void read_rows(const kv_layer *c, int format, const int64_t *index, int n, int n_threads, float *out) {
    (void)n_threads;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int row = 0; row < c->n_heads * n; row++) {
        const int h = row / n, i = row % n, dim = c->head_dim;
        const int64_t token = index ? index[row] : i, at = (int64_t)h * c->capacity + token / PAGE;
        float *k = out + (int64_t)row * dim, *v = k + (int64_t)c->n_heads * n * dim;
        read_key(c, format, at, h, (int)(token / PAGE), (int)(token % PAGE), k);
        for (int d = 0; d < dim; d++) v[d] = value_at(c, format, at, (int)(token % PAGE), d);
    }
}

/* Read n tokens of each head as fp32 [2, heads, n, head_dim]: those listed in index [heads, n], or the first n. */
void trilemma_read_kv(const kv_layer *c, const int64_t *index, int n, int n_threads, float *out) {
#define READ(F) read_rows(c, F, index, n, n_threads, out)
    FOR_FORMAT(c->format, READ)
}
