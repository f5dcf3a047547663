/* Products of up to 4 rows of queries, or of weights, with a strip of a KV cache (kv_pages.h). */

#ifndef TRILEMMA_STRIPS_H
#define TRILEMMA_STRIPS_H

#include "kv_pages.h"

/* The rows that are multiplied with strips, as the strips' format needs them. */
typedef struct {
    const float *x;       /* [G, n], or NULL */
    const int32_t *words; /* INT8: [G, n / 2], INT4: [G, n / 4] */
    const float *scale;   /* of the words: INT8: [G], INT4: [G, n / 32] */
    float base[4];        /* INT4: what every sum contains besides */
} rows_t;

/* Sums of enough rows in turn to hide the latency of a product. */
#if LANES == 8
#define TURNS(G) ((G) == 1 ? 4 : (G) < 4 ? 2 : 1)
#else
#define TURNS(G) ((G) == 1 ? 2 : 1)
#endif

/* Rows in a row of which the compiler may mix the code: with 16 registers and many vectors that ends in memory. */
#if LANES == 8 || defined(__aarch64__)
#define UNROLL_ROWS _Pragma("GCC unroll 16")
#else
#define UNROLL_ROWS _Pragma("GCC unroll 2")
#endif

INLINE void set(vf *x, vf value) {
    for (int p = 0; p < PARTS; p++) x[p] = value;
}

/* The 16 lanes of row i of the rows that share 8 words. */
INLINE void load_row(const uint8_t *w, int format, int i, vf *x) {
    for (int p = 0; p < PARTS; p++)
        if (format == FP32) x[p] = *(const vf *)(w + 64 * i + VECTOR_BYTE * p);
        else if (format == FP16) x[p] = (vf)load_fp16(w + 32 * i + VECTOR_BYTE / 2 * p);
        else {
            const vu u = *(const vu *)(w + 64 * (i % 8) + VECTOR_BYTE * p);
            x[p] = (vf)(i < 8 ? u << 16 : u & 0xffff0000u);
        }
}

/* sum[g] = x[g] . the strip's n rows, a multiple of 64. Its lines are read once, and as many asked for from `next` on, so
   that reading and computing take time together. */
INLINE void float_strip(const float *x, const uint8_t *w, const uint8_t *next, int format, int G, int n, vf sum[4][PARTS]) {
    const int rows = 16, byte = format == FP32 ? 1024 : 512;
    vf turns[4][4][PARTS];
    for (int u = 0; u < TURNS(G); u++)
        for (int g = 0; g < G; g++) set(turns[u][g], splat(0));
    for (int first = 0; first < n; first += rows, w += byte, next += byte, x += rows)
        UNROLL_ROWS
        for (int k = 0; k < rows; k++) {
            const int i = format == BF16 ? k / 2 + k % 2 * 8 : k; /* both rows of a word, one after the other */
            vf row[PARTS];
            if (byte == 1024 || k % 2 == 0) __builtin_prefetch(next + byte / rows * k);
            load_row(w, format, i, row);
            for (int g = 0; g < G; g++)
                for (int p = 0; p < PARTS; p++) turns[k % TURNS(G)][g][p] += x[g * n + i] * row[p];
        }
    for (int g = 0; g < G; g++)
        for (int p = 0; p < PARTS; p++) {
            sum[g][p] = turns[0][g][p];
            for (int u = 1; u < TURNS(G); u++) sum[g][p] += turns[u][g][p];
        }
}

INLINE i32v same(int32_t x) { return x - (i32v){0}; }

INLINE void int8_strip(const rows_t *r, const uint8_t *w, const uint8_t *next, int G, int n, vf sum[4][PARTS]) {
    const int32_t *x = r->words;
    i32v total[4][PARTS];
    for (int g = 0; g < G; g++) for (int p = 0; p < PARTS; p++) total[g][p] = (i32v){0};
    for (int first = 0; first < n; first += 32, x += 16)
#pragma GCC unroll 2
        for (int j = 0; j < 8; j++, w += 64, next += 64) {
            i16v even[PARTS], odd[PARTS];
            __builtin_prefetch(next);
            for (int p = 0; p < PARTS; p++) {
                const i16v u = LOAD(i16v, w + VECTOR_BYTE * p);
                even[p] = u << 8 >> 8;
                odd[p] = u >> 8;
            }
            for (int g = 0; g < G; g++) {
                const i16v a = (i16v)same(x[g * n / 2 + j]), b = (i16v)same(x[g * n / 2 + 8 + j]);
                for (int p = 0; p < PARTS; p++)
                    total[g][p] += word_pairs(even[p], a, odd[p], b);
            }
        }
    for (int g = 0; g < G; g++)
        for (int p = 0; p < PARTS; p++) sum[g][p] = __builtin_convertvector(total[g][p], vf) * r->scale[g];
}

/* Products of bytes with the lower or the upper nibbles of a line, added to sums or, of the first line, set. */
INLINE void int4_line(const int32_t *x, int pitch, const uint8_t *line, int upper, int is_signed, int G, int is_first,
                      byte_sums sums[4][PARTS]) {
    u8v nibbles[PARTS];
    for (int p = 0; p < PARTS; p++)
        nibbles[p] = (u8v)((LOAD(u16v, line + VECTOR_BYTE * p) >> 4 * upper) & 0x0f0f);
    for (int g = 0; g < G; g++) {
        const u8v bytes = (u8v)same(x[g * pitch]);
        for (int p = 0; p < PARTS; p++)
            sums[g][p] = add_bytes(is_first ? (byte_sums){0} : sums[g][p], nibbles[p], bytes, is_signed);
    }
}

/* 16 products of a byte and a nibble fit 16 bits, signed or not: 16 * 127 * 15, 16 * 255 * 15. */
INLINE void int4_strip(const rows_t *r, const uint8_t *w, const uint8_t *next, int is_signed, int G, int n, vf sum[4][PARTS]) {
    const int32_t *x = r->words;
    const float *scale = r->scale;
    for (int g = 0; g < G; g++) set(sum[g], splat(r->base[g]));
    for (int first = 0; first < n; first += 64, w += 512, next += 512, scale += 2)
#pragma GCC unroll 2
        for (int upper = 0; upper < 2; upper++, x += 8) {
            byte_sums sums[4][PARTS];
            int4_line(x, n / 4, w, upper, is_signed, G, 1, sums);
            if (!upper) __builtin_prefetch(next);
#pragma GCC unroll 1 /* sums would not stay in registers */
            for (int j = 1; j < 8; j++) {
                int4_line(x + j, n / 4, w + 64 * j, upper, is_signed, G, 0, sums);
                if (!upper) __builtin_prefetch(next + 64 * j);
            }
            for (int g = 0; g < G; g++)
                for (int p = 0; p < PARTS; p++)
                    sum[g][p] += __builtin_convertvector(whole_sums(sums[g][p], is_signed), vf) *
                                 scale[g * n / 32 + upper];
        }
}

INLINE void strip_products(const rows_t *r, const uint8_t *w, const uint8_t *next, int format, int is_signed, int G, int n,
                           vf sum[4][PARTS]) {
    if (format == INT8) int8_strip(r, w, next, G, n, sum);
    else if (format == INT4) int4_strip(r, w, next, is_signed, G, n, sum);
    else float_strip(r->x, w, next, format, G, n, sum);
}

#endif
