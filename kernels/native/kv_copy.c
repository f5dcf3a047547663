/* Copying chosen tokens from one KV cache (kv_pages.h) to another of its format, as they are stored. Only keys in int4,
   whose scales belong to the tokens that share a page, are quantised anew. */

#include "kv_values.h"

/* What is copied: n tokens of each head, those listed in index [heads, n], or the first n. */
typedef struct {
    const kv_layer *from;
    kv_layer *to;
    const int64_t *index;
    int n;
} copying;

/* The tokens that fill a page: m of them, the others repeat the first. */
typedef struct {
    int head, page, m;
    int64_t at, token[PAGE];
} filling;

INLINE int64_t block_of(const kv_layer *c, int head, int64_t token) { return (int64_t)head * c->capacity + token / PAGE; }

/* Keys of a strip: words of the chosen lanes. */
#define COPY_LANES(name, word)                                                                              \
    INLINE void name(const copying *c, const filling *f, int n_lines) {                                     \
        const int64_t strip = (int64_t)n_lines * STRIP, block = PAGE / STRIP * strip;                       \
        for (int first = 0; first < f->m; first += STRIP) {                                                 \
            const word *from[STRIP];                                                                        \
            word *to = (word *)c->to->k + f->at * block + first / STRIP * strip;                            \
            for (int i = 0; i < STRIP; i++) {                                                               \
                const int64_t t = f->token[first + i];                                                      \
                from[i] = (const word *)c->from->k + block_of(c->from, f->head, t) * block;                 \
                from[i] += t % PAGE / STRIP * strip + t % STRIP;                                            \
            }                                                                                               \
            for (int l = 0; l < n_lines; l++)                                                               \
                for (int i = 0; i < STRIP; i++) to[l * STRIP + i] = from[i][l * STRIP];                     \
        }                                                                                                   \
    }
COPY_LANES(copy_words, uint32_t)
COPY_LANES(copy_halves, uint16_t)

/* Values: each word is put together from the rows of as many tokens. */
INLINE void copy_values(const copying *c, const filling *f, const int format) {
    const int n = rows_of_word(format), line = format == FP16 ? 32 : 64, n_strips = c->to->head_dim / STRIP;
    const int64_t strip = (int64_t)PAGE / n * line, block = n_strips * strip;
    const uint32_t rest = n == 1 ? 0xffffffffu : (1u << 32 / n) - 1;
    for (int s = 0; s < n_strips; s++)
        for (int w = 0; w < PAGE / n; w++) {
            u32v words[PARTS] = {{0}};
            for (int slot = 0; slot < n; slot++) {
                const int row = w / 8 * 8 * n + slot * 8 + w % 8;
                const int64_t t = f->token[row], source = t % PAGE;
                const uint8_t *at = c->from->v + block_of(c->from, f->head, t) * block + s * strip;
                at += (source / (8 * n) * 8 + source % 8) * line;
                for (int p = 0; p < line / VECTOR_BYTE; p++)
                    words[p] |= (LOAD(u32v, at + VECTOR_BYTE * p) >> shift_of(format, (int)source) & rest)
                                << shift_of(format, row);
            }
            memcpy(c->to->v + f->at * block + s * strip + w * line, words, line);
        }
}

/* Keys in int4, by way of bf16 as when they are written. */
static void requantise(const copying *c, const filling *f, int is_open) {
    const int dim = c->to->head_dim;
    uint16_t *open = c->to->open + (int64_t)f->head * dim * PAGE, *scale = (uint16_t *)c->to->k_scale + f->at * 2 * dim;
    float x[MAX_DIM / 64][PAGE][64];
    for (int i = 0; i < f->m; i++) {
        const int64_t t = f->token[i];
        float key[MAX_DIM];
        read_key(c->from, INT4, block_of(c->from, f->head, t), f->head, (int)(t / PAGE), (int)(t % PAGE), key);
#pragma omp simd
        for (int d = 0; d < dim; d++) key[d] = bf16_value(to_bf16(key[d]));
        if (is_open)
            for (int d = 0; d < dim; d++) open[key_place(BF16, dim, i, d)] = to_bf16(key[d]);
        for (int d = 0; d < dim; d += 64) memcpy(x[d / 64][i], key + d, sizeof x[0][0]);
    }
    if (is_open) return;
    for (int d = 0; d < dim; d += 64) put_keys_int4(x[d / 64][0], c->to->k + f->at * block_byte(INT4, dim), dim, d, scale);
}

INLINE void copy_scales(const copying *c, const filling *f) {
    const kv_layer *from = c->from, *to = c->to;
    for (int i = 0; i < f->m; i++) {
        const int64_t at = block_of(from, f->head, f->token[i]), t = f->token[i] % PAGE;
        if (to->format == INT8) {
            ((float *)to->k_scale)[f->at * PAGE + i] = ((const float *)from->k_scale)[at * PAGE + t];
            ((float *)to->v_scale)[f->at * PAGE + i] = ((const float *)from->v_scale)[at * PAGE + t];
        } else
            for (int part = 0; part < 2; part++)
                ((uint16_t *)to->v_scale)[(f->at * 2 + part) * PAGE + i] =
                    ((const uint16_t *)from->v_scale)[(at * 2 + part) * PAGE + t];
    }
}

/* A page of tokens that are a whole page of the source is the same page. */
INLINE int copy_whole(const copying *c, const filling *f, int is_open) {
    const kv_layer *from = c->from, *to = c->to;
    const int64_t byte = block_byte(to->format, to->head_dim), at = block_of(from, f->head, f->token[0]);
    int is_whole = f->m == PAGE && f->token[0] % PAGE == 0;
    for (int i = 1; i < PAGE; i++) is_whole &= f->token[i] == f->token[0] + i;
    if (to->format == INT4) is_whole &= !is_open && from->open_page[f->head] != f->token[0] / PAGE;
    if (!is_whole) return 0;
    memcpy(to->k + f->at * byte, from->k + at * byte, byte);
    memcpy(to->v + f->at * byte, from->v + at * byte, byte);
    if (to->format == INT4) {
        const int64_t keys = 4 * to->head_dim;
        memcpy((uint8_t *)to->k_scale + f->at * keys, (const uint8_t *)from->k_scale + at * keys, keys);
    }
    return 1;
}

static void fill_page(const copying *c, int head, int page) {
    filling f = {.head = head, .page = page, .at = (int64_t)head * c->to->capacity + page};
    const int format = c->to->format, dim = c->to->head_dim, is_open = page == (c->n - 1) / PAGE;
    f.m = is_open ? c->n - page * PAGE : PAGE;
    for (int i = 0; i < PAGE; i++) {
        const int token = page * PAGE + (i < f.m ? i : 0);
        f.token[i] = c->index ? c->index[(int64_t)head * c->n + token] : token;
    }
    if (format >= INT8) copy_scales(c, &f);
    if (copy_whole(c, &f, is_open)) return;
    if (format == INT4) requantise(c, &f, is_open);
    else if (format == FP16) copy_halves(c, &f, dim);
    else copy_words(c, &f, dim / rows_of_word(format));
    switch (format) {
    case FP32: copy_values(c, &f, FP32); break;
    case BF16: copy_values(c, &f, BF16); break;
    case FP16: copy_values(c, &f, FP16); break;
    case INT8: copy_values(c, &f, INT8); break;
    default: copy_values(c, &f, INT4);
    }
}

/* Fill a cache of the same format from its beginning with n tokens of each head. */
void trilemma_copy_kv(const kv_layer *from, kv_layer *to, const int64_t *index, int n, int n_threads) {
    const copying c = {from, to, index, n};
    const int n_pages = (n + PAGE - 1) / PAGE;
    (void)n_threads;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int i = 0; i < to->n_heads * n_pages; i++) fill_page(&c, i / n_pages, i % n_pages);
    if (to->format == INT4)
        for (int h = 0; h < to->n_heads; h++) to->open_page[h] = n_pages - 1;
}
