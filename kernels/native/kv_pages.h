/* A KV cache in pages of 64 tokens, as attention.c reads it and kv_pages.c writes it.

   A page of a head holds keys [head_dim][64 tokens] and values [64 tokens][head_dim]. Elements that share a 32-bit word
   lie 8 apart in true order, so that a shift or a mask unpacks 8 neighbours: word w of a row holds, with n elements a
   word, the elements 8 n (w / 8) + 8 i + w % 8, i = 0..n-1, lowest bits first. fp32 and fp16 lie in true order.
   int8: a scale a token, for keys and values each. int4: scale * nibble + offset, keys by channel (over the 64 tokens of
   a page), values by token; the keys of the page that is being filled wait in bf16. */

#ifndef TRILEMMA_KV_PAGES_H
#define TRILEMMA_KV_PAGES_H

#include "native.h"

#define PAGE 64
#define LANES 8
#define MAX_DIM 256

typedef float vf __attribute__((vector_size(32), aligned(4)));
typedef int32_t vi __attribute__((vector_size(32), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(32), aligned(4)));

/* One layer of a cache. Page p of KV head h is the (h * capacity + p)-th. */
typedef struct {
    uint8_t *k, *v;     /* pages */
    void *k_scale;      /* INT8: fp32 [heads, capacity, 64]; INT4: fp16 [heads, capacity, 2, head_dim] scale, offset */
    void *v_scale;      /* INT8: fp32 [heads, capacity, 64]; INT4: fp16 [heads, capacity, 2, 64] */
    uint16_t *open;     /* INT4: bf16 keys [heads, head_dim, 64] of the page that is being filled */
    int32_t *open_page; /* INT4: [heads] which page that is */
    int32_t format, n_heads, head_dim, capacity;
} kv_layer;

/* What one token attends to in one layer. */
typedef struct {
    const kv_layer *kv;
    const float *q;       /* [heads, n_groups, head_dim], scaled */
    const int32_t *pages; /* [heads, page_stride] the pages to read, the one being filled last; NULL: all, in order */
    const float *mask;    /* [heads, mask_stride] added to the scores, or NULL */
    float *scores;        /* [heads, n_groups, n_pages * 64] takes the scores in the order of the pages read, or NULL */
    float *state;         /* scratch [n_threads, heads, n_groups, head_dim + 2]: weighted values, maximum, sum */
    float *out;           /* [heads, n_groups, head_dim] */
    int64_t mask_stride, page_stride;
    int32_t n_groups, n_pages, n_last, n_threads; /* n_last: tokens in the last page */
    int32_t first_page, n_unseen; /* pages passed over before the first that is read, and its tokens before a window */
    float soft_cap;               /* c of the scores, c tanh(s / c); 0 for none */
} attention;

void kv_write_head(kv_layer *c, int position, const float *k, const float *v, int head);
void kv_write(kv_layer *c, const float *kv, int64_t kv_stride, int64_t head_stride, int64_t token_stride, int start, int n);
void attention_share(const attention *a, int thread, int n_threads);
void attention_merge(const attention *a, int first_row, int last_row, int n_threads);

INLINE vf splat(float x) { return x - (vf){0}; }

INLINE vf from_fp16(const uint16_t *h) { return (vf)load_fp16(h); }

/* Vectors 2j and 2j + 1 of a row of 64 elements. Elements that share a 32-bit word lie 8 apart in the row, so that a
   shift or a mask unpacks 8 of them; int8 and int4 come multiplied by 1 / unit(). */
INLINE void load2(const uint8_t *row, int format, int j, vf *x, vf *y) {
    if (format == FP32) {
        *x = *(const vf *)(row + 64 * j);
        *y = *(const vf *)(row + 64 * j + 32);
    } else if (format == BF16) {
        vu u = *(const vu *)(row + 32 * j);
        *x = (vf)(u << 16);
        *y = (vf)(u & 0xffff0000u);
    } else if (format == FP16) {
        *x = from_fp16((const uint16_t *)(row + 32 * j));
        *y = from_fp16((const uint16_t *)(row + 32 * j + 16));
    } else if (format == INT8) {
        vu u = *(const vu *)(row + 32 * (j / 2));
        *x = __builtin_convertvector((vi)(j % 2 ? u << 8 & 0xff000000u : u << 24), vf);
        *y = __builtin_convertvector((vi)(j % 2 ? u & 0xff000000u : u << 16 & 0xff000000u), vf);
    } else {
        vu u = *(const vu *)row;
        *x = __builtin_convertvector((vi)(u & 15u << 8 * j), vf);
        *y = __builtin_convertvector((vi)(j == 3 ? u >> 28 : u & 240u << 8 * j), vf);
    }
}

INLINE float unit(int format, int vector) {
    return format == INT8 ? 0x1p-24f : format == INT4 && vector < 7 ? 1.0f / (1 << 4 * vector) : 1.0f;
}

INLINE int row_byte(int format) { return format == FP32 ? 256 : format == INT8 ? 64 : format == INT4 ? 32 : 128; }

#endif
