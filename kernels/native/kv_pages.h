/* A KV cache in pages of 64 tokens, as attention.c reads it and kv_pages.c writes it.

   A page of a head is two blocks: keys, in 4 strips of 16 tokens with the channels as rows; values, in head_dim / 16
   strips of 16 channels with the tokens as rows. A strip is read from its beginning to its end, 16 lanes side by side,
   and a sum runs over its rows, so nothing is summed across a vector. A lane's word of 32 bits holds 2 (bf16), 4 (int8)
   or 8 (int4) rows that are 8 apart, which makes vectors of 8 queries or weights fit without a permutation; fp32 and
   fp16 have a row a word. In int4 rows 0..3 of a word are the lower halves of its bytes.
   int8: a scale a token, for keys and values each. int4: scale * nibble + offset, keys by channel (over the 64 tokens of
   a page), values by token; the keys of the page that is being filled wait in bf16. */

#ifndef TRILEMMA_KV_PAGES_H
#define TRILEMMA_KV_PAGES_H

#include "native.h"

#define PAGE 64
#define STRIP 16
#define MAX_DIM 256

typedef float vf __attribute__((vector_size(VECTOR_BYTE), aligned(4)));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTE), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(VECTOR_BYTE), aligned(4)));

/* One layer of a cache. Page p of KV head h is the (h * capacity + p)-th. */
typedef struct {
    uint8_t *k, *v;     /* pages */
    void *k_scale;      /* INT8: fp32 [heads, capacity, 64]; INT4: fp16 [heads, capacity, 2, head_dim] scale, offset */
    void *v_scale;      /* INT8: fp32 [heads, capacity, 64]; INT4: fp16 [heads, capacity, 2, 64] */
    uint16_t *open;     /* INT4: bf16 keys [heads, a block] of the page that is being filled */
    int32_t *open_page; /* INT4: [heads] which page that is */
    int32_t format, n_heads, head_dim, capacity;
} kv_layer;

/* What one token attends to in one layer. */
typedef struct {
    const kv_layer *kv;
    const float *q;       /* [heads, n_groups, head_dim], scaled */
    const int32_t *pages; /* [heads, page_stride] the pages to read, the one being filled last; NULL: all, in order */
    const float *mask;    /* [heads, mask_stride] added to the scores, or NULL */
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

/* Bytes of a block: the keys or the values of 64 tokens of a head. */
INLINE int64_t block_byte(int format, int head_dim) {
    return (int64_t)head_dim * (format == FP32 ? 256 : format == INT8 ? 64 : format == INT4 ? 32 : 128);
}

/* Rows that share a word. */
INLINE int rows_of_word(int format) { return format == BF16 ? 2 : format == INT8 ? 4 : format == INT4 ? 8 : 1; }

/* Which of a strip's elements, counted in elements, row i of a lane is. */
INLINE int place(int format, int i, int lane) {
    const int n = rows_of_word(format), slot = i / 8 % n;
    const int word = (i / (8 * n) * 8 + i % 8) * STRIP + lane;
    return word * n + (format == INT4 ? slot % 4 * 2 + slot / 4 : slot);
}

/* Which of a block's elements is channel d of token t. */
INLINE int key_place(int format, int head_dim, int t, int d) {
    return t / STRIP * STRIP * head_dim + place(format, d, t % STRIP);
}

INLINE int value_place(int format, int t, int d) { return d / STRIP * STRIP * PAGE + place(format, t, d % STRIP); }

#endif
