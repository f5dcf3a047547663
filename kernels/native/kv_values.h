/* Single values of a KV cache (kv_pages.h): how they are rounded, put into a block and read back. */

#ifndef TRILEMMA_KV_VALUES_H
#define TRILEMMA_KV_VALUES_H

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

INLINE void put_nibble(uint8_t *block, int at, int value) {
    uint8_t *byte = block + at / 2, shift = at % 2 * 4;
    *byte = (uint8_t)((*byte & ~(15 << shift)) | value << shift);
}

INLINE int nibble(const uint8_t *block, int at) { return block[at / 2] >> at % 2 * 4 & 15; }

INLINE int nearest(float x) { return (int)(x + 12582912.0f - 12582912.0f); } /* half to even, |x| < 2^22 */

/* A scale and an offset for values between two, rounded to fp16 first, so that codes are made against what is kept. */
typedef struct {
    float width, start;
} grid;

INLINE grid grid_of(float low, float high, uint16_t *scale, uint16_t *offset) {
    const float step = (high - low) / 15;
    *scale = to_fp16(step < 1e-7f ? 1e-7f : step);
    *offset = to_fp16(low);
    return (grid){fp16_value(*scale), fp16_value(*offset)};
}

INLINE int code(float x, grid g) {
    const int q = nearest((x - g.start) / g.width);
    return q < 0 ? 0 : q > 15 ? 15 : q;
}

INLINE void limits(const float *x, int n, float *low, float *high) {
    *low = *high = x[0];
    for (int i = 1; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

/* Where in its word a row lies, in bits. */
INLINE int shift_of(int format, int row) {
    const int slot = row / 8 % rows_of_word(format);
    return format == INT4 ? slot % 4 * 8 + slot / 4 * 4 : format == INT8 ? slot * 8 : format == BF16 ? slot * 16 : 0;
}

/* The first of the 8 words, STRIP apart, that hold 64 channels of a token's key in int4, from channel d on. */
INLINE uint32_t *key_words(uint8_t *block, int dim, int t, int d) {
    return (uint32_t *)block + (t / STRIP * (dim / 8) + d / 8) * STRIP + t % STRIP;
}

/* Quantise 64 channels of a page's keys x [PAGE, 64], the first being channel d. */
INLINE void put_keys_int4(const float *x, uint8_t *block, int dim, int d, uint16_t *scale) {
    float low[64], high[64], width[64], start[64];
    memcpy(low, x, sizeof low);
    memcpy(high, x, sizeof high);
    for (int t = 1; t < PAGE; t++)
#pragma omp simd
        for (int c = 0; c < 64; c++) {
            const float value = x[t * 64 + c];
            low[c] = value < low[c] ? value : low[c];
            high[c] = value > high[c] ? value : high[c];
        }
    for (int c = 0; c < 64; c++) {
        const grid g = grid_of(low[c], high[c], scale + d + c, scale + dim + d + c);
        width[c] = g.width, start[c] = g.start;
    }
    for (int t = 0; t < PAGE; t++) {
        uint32_t word[8] = {0}, *to = key_words(block, dim, t, d);
        for (int c = 0; c < 64; c += 8)
#pragma omp simd
            for (int i = 0; i < 8; i++)
                word[i] |= (uint32_t)code(x[t * 64 + c + i], (grid){width[c + i], start[c + i]}) << shift_of(INT4, c);
        for (int i = 0; i < 8; i++) to[i * STRIP] = word[i];
    }
}

INLINE float element(const uint8_t *block, int format, int at) { /* before its scale */
    switch (format) {
    case FP32: return ((const float *)block)[at];
    case BF16: return bf16_value(((const uint16_t *)block)[at]);
    case FP16: return fp16_value(((const uint16_t *)block)[at]);
    case INT8: return ((const int8_t *)block)[at];
    default: return nibble(block, at);
    }
}

INLINE float key_at(const kv_layer *c, int format, int64_t at, int h, int page, int t, int d) {
    const int dim = c->head_dim, place = key_place(format == INT4 && page == c->open_page[h] ? BF16 : format, dim, t, d);
    if (format == INT4 && page == c->open_page[h]) return bf16_value(c->open[(int64_t)h * dim * PAGE + place]);
    const float x = element(c->k + at * block_byte(format, dim), format, place);
    if (format == INT8) return x * ((const float *)c->k_scale)[at * PAGE + t];
    const uint16_t *scale = (const uint16_t *)c->k_scale + at * 2 * dim + d;
    return format == INT4 ? x * fp16_value(scale[0]) + fp16_value(scale[dim]) : x;
}

/* The key of token t of a page, the at-th, of head h. */
INLINE void read_key(const kv_layer *c, int format, int64_t at, int h, int page, int t, float *x) {
    const int dim = c->head_dim;
    if (format != INT4 || page == c->open_page[h]) {
        for (int d = 0; d < dim; d++) x[d] = key_at(c, format, at, h, page, t, d);
        return;
    }
    const uint16_t *scale = (const uint16_t *)c->k_scale + at * 2 * dim;
    for (int first = 0; first < dim; first += 64) {
        const uint32_t *from = key_words(c->k + at * block_byte(INT4, dim), dim, t, first);
        for (int lane = 0; lane < 8; lane += LANES) {
            vi word;
            for (int i = 0; i < LANES; i++) word[i] = (int32_t)from[(lane + i) * STRIP];
            for (int d = first + lane; d < first + 64; d += 8) {
                const vf nibbles = __builtin_convertvector(word >> shift_of(INT4, d) & 15, vf);
                *(vf *)(x + d) = nibbles * from_fp16(scale + d) + from_fp16(scale + dim + d);
            }
        }
    }
}

#endif
