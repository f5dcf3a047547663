/* Writing tokens into a paged KV cache and reading them back (kv_pages.h). */

#include "kv_pages.h"

INLINE uint16_t to_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

INLINE float bf16_value(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* Round to fp16: by adding a number that leaves ten bits of the fraction; saturates, flushes what is below 2^-24. */
INLINE uint16_t to_fp16(float x) {
    uint32_t u, sign, magic;
    memcpy(&u, &x, 4);
    sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x477fe000) return (uint16_t)(sign | 0x7bff);
    uint32_t exponent = u >> 23 < 113 ? 113 : u >> 23;
    magic = (exponent + 13) << 23;
    float value, add;
    memcpy(&value, &u, 4);
    memcpy(&add, &magic, 4);
    value += add;
    memcpy(&u, &value, 4);
    return (uint16_t)(sign | (((exponent - 113) << 10) + (u & 0xfff)));
}

INLINE float fp16_value(uint16_t h) {
    uint32_t u = (uint32_t)(h & 0x7fff) << 13;
    float x;
    memcpy(&x, &u, 4);
    return (h & 0x8000 ? -x : x) * 0x1p112f;
}

/* Where element i of a row lies: in 16-bit units, bytes or nibbles. */
INLINE int place2(int i) { return i / 16 * 16 + i % 8 * 2 + i / 8 % 2; }
INLINE int place4(int i) { return i / 32 * 32 + i % 8 * 4 + i / 8 % 4; }
INLINE int place8(int i) { return i / 64 * 64 + i % 8 * 8 + i / 8 % 8; }

INLINE void put_nibble(uint8_t *row, int i, int value) {
    uint8_t *byte = row + place8(i) / 2, shift = place8(i) % 2 * 4;
    *byte = (uint8_t)((*byte & ~(15 << shift)) | value << shift);
}

INLINE int nibble(const uint8_t *row, int i) { return row[place8(i) / 2] >> place8(i) % 2 * 4 & 15; }

INLINE int nearest(float x) { return (int)(x + 12582912.0f - 12582912.0f); } /* half to even, |x| < 2^22 */

INLINE float steps(const float *x, int n, int64_t stride, float *low) {
    float high = x[0];
    *low = x[0];
    for (int i = 1; i < n; i++) {
        const float value = x[i * stride];
        *low = value < *low ? value : *low;
        high = value > high ? value : high;
    }
    return (high - *low) / 15;
}

/* Quantise n values against a scale and an offset that are themselves rounded to fp16 first. */
INLINE void put_int4(const float *x, int n, uint8_t *row, uint16_t *scale, uint16_t *offset) {
    float low, step = steps(x, n, 1, &low);
    *scale = to_fp16(step < 1e-7f ? 1e-7f : step);
    *offset = to_fp16(low);
    const float width = fp16_value(*scale), start = fp16_value(*offset);
    for (int i = 0; i < n; i++) {
        int q = nearest((x[i] - start) / width);
        put_nibble(row + i / 64 * 32, i % 64, q < 0 ? 0 : q > 15 ? 15 : q);
    }
}

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
    for (int d = 0; d < dim; d++) {
        const int64_t at = (int64_t)h * c->capacity + (full ? page - 1 : page);
        uint16_t *row = c->open + ((int64_t)h * dim + d) * PAGE, *scale = (uint16_t *)c->k_scale + at * 2 * dim + d;
        uint8_t *packed = c->k + (at * dim + d) * 32;
        float x[PAGE];
        if (full) { /* quantise the page before */
            for (int t = 0; t < PAGE; t++) x[t] = bf16_value(row[place2(t)]);
            put_int4(x, PAGE, packed, scale, scale + dim);
        } else if (slot) { /* the cache was cut back into an earlier page: open that again */
            for (int t = 0; t < PAGE; t++)
                row[place2(t)] = to_bf16(nibble(packed, t) * fp16_value(scale[0]) + fp16_value(scale[dim]));
        }
    }
    c->open_page[h] = page;
}

static void put_key(kv_layer *c, int h, int page, int t, const float *x) {
    const int dim = c->head_dim;
    const int64_t at = (int64_t)h * c->capacity + page;
    switch (c->format) {
    case FP32:
        for (int d = 0; d < dim; d++) ((float *)c->k)[(at * dim + d) * PAGE + t] = x[d];
        break;
    case BF16:
        for (int d = 0; d < dim; d++) ((uint16_t *)c->k)[(at * dim + d) * PAGE + place2(t)] = to_bf16(x[d]);
        break;
    case FP16:
        for (int d = 0; d < dim; d++) ((uint16_t *)c->k)[(at * dim + d) * PAGE + t] = to_fp16(x[d]);
        break;
    case INT8: {
        const float m = largest_magnitude(x, dim) / 127, scale = m < 1e-30f ? 1e-30f : m;
        ((float *)c->k_scale)[at * PAGE + t] = scale;
        for (int d = 0; d < dim; d++) ((int8_t *)c->k)[(at * dim + d) * PAGE + place4(t)] = (int8_t)nearest(x[d] / scale);
        break;
    }
    case INT4:
        for (int d = 0; d < dim; d++) c->open[((int64_t)h * dim + d) * PAGE + place2(t)] = to_bf16(x[d]);
    }
}

static void put_value(kv_layer *c, int h, int page, int t, const float *x) {
    const int dim = c->head_dim;
    const int64_t at = (int64_t)h * c->capacity + page, first = (at * PAGE + t) * dim;
    switch (c->format) {
    case FP32: memcpy((float *)c->v + first, x, sizeof(float) * dim); break;
    case BF16:
        for (int d = 0; d < dim; d++) ((uint16_t *)c->v)[first + place2(d)] = to_bf16(x[d]);
        break;
    case FP16:
        for (int d = 0; d < dim; d++) ((uint16_t *)c->v)[first + d] = to_fp16(x[d]);
        break;
    case INT8: {
        const float m = largest_magnitude(x, dim) / 127, scale = m < 1e-30f ? 1e-30f : m;
        ((float *)c->v_scale)[at * PAGE + t] = scale;
        for (int d = 0; d < dim; d++) ((int8_t *)c->v)[first + place4(d)] = (int8_t)nearest(x[d] / scale);
        break;
    }
    case INT4: {
        uint16_t *scale = (uint16_t *)c->v_scale + at * 2 * PAGE + t;
        put_int4(x, dim, c->v + first / 2, scale, scale + PAGE);
    }
    }
}

/* Write the key and the value [head_dim] of one token and KV head. Heads may be written by several threads. */
void kv_write_head(kv_layer *c, int position, const float *k, const float *v, int head) {
    const int page = position / PAGE, t = position % PAGE;
    if (c->format == INT4) open_page(c, head, page, t);
    put_key(c, head, page, t, k);
    put_value(c, head, page, t, v);
}

/* Write tokens start..start + n - 1 of all heads. kv: keys, then values; strides in floats, channels are contiguous. */
void kv_write(kv_layer *c, const float *kv, int64_t kv_stride, int64_t head_stride, int64_t token_stride, int start, int n) {
    for (int h = 0; h < c->n_heads; h++)
        for (int i = 0; i < n; i++) {
            const float *k = kv + h * head_stride + i * token_stride;
            kv_write_head(c, start + i, k, k + kv_stride, h);
        }
}

INLINE float element(const uint8_t *row, int format, int i) { /* of a row of 64, before its scale */
    switch (format) {
    case FP32: return ((const float *)row)[i];
    case BF16: return bf16_value(((const uint16_t *)row)[place2(i)]);
    case FP16: return fp16_value(((const uint16_t *)row)[i]);
    case INT8: return ((const int8_t *)row)[place4(i)];
    default: return nibble(row, i);
    }
}

INLINE float key_at(const kv_layer *c, int format, int64_t at, int h, int page, int t, int d) {
    const int dim = c->head_dim;
    if (format == INT4 && page == c->open_page[h])
        return bf16_value(c->open[((int64_t)h * dim + d) * PAGE + place2(t)]);
    const float x = element(c->k + (at * dim + d) * row_byte(format), format, t);
    if (format == INT8) return x * ((const float *)c->k_scale)[at * PAGE + t];
    const uint16_t *scale = (const uint16_t *)c->k_scale + at * 2 * dim + d;
    return format == INT4 ? x * fp16_value(scale[0]) + fp16_value(scale[dim]) : x;
}

INLINE float value_at(const kv_layer *c, int format, int64_t at, int t, int d) {
    const int blocks = c->head_dim / 64;
    const float x = element(c->v + ((at * PAGE + t) * blocks + d / 64) * row_byte(format), format, d % 64);
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
        for (int d = 0; d < dim; d++) k[d] = key_at(c, format, at, h, (int)(token / PAGE), (int)(token % PAGE), d);
        for (int d = 0; d < dim; d++) v[d] = value_at(c, format, at, (int)(token % PAGE), d);
    }
}

/* Read n tokens of each head as fp32 [2, heads, n, head_dim]: those listed in index [heads, n], or the first n. */
void trilemma_read_kv(const kv_layer *c, const int64_t *index, int n, int n_threads, float *out) {
    switch (c->format) {
    case FP32: read_rows(c, FP32, index, n, n_threads, out); break;
    case BF16: read_rows(c, BF16, index, n, n_threads, out); break;
    case FP16: read_rows(c, FP16, index, n, n_threads, out); break;
    case INT8: read_rows(c, INT8, index, n, n_threads, out); break;
    default: read_rows(c, INT4, index, n, n_threads, out);
    }
}
