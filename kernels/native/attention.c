/* Decode attention of one token over a paged KV cache (kv_pages.h): all pages or a list of them, read in place.

   Scores are vectorised over tokens and outputs over channels, so nothing is summed across a vector. Softmax is online,
   page by page; threads take equal runs of (head, page), and their partial states are merged at the end. */

#include "strips.h"

#define LOWEST -1e30f /* below any score */

INLINE vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }

#define ROUNDING 12582912.0f /* leaves the nearest integer in the lower bits of what it is added to */
#define LOG2_E 1.44269504f
#define TINY 1e-30f /* what is below is rounded to nothing, as weights of hidden tokens are */

/* 2^x for x <= 0, relative error 2e-7; 2^-126 below that. */
INLINE vf power_of_2(vf x) {
    x = maximum(x, splat(-126.0f));
    const vf shifted = x + ROUNDING, r = x - (shifted - ROUNDING);
    vf y = splat(1.535336188e-4f);
    y = y * r + 1.339887440e-3f;
    y = y * r + 9.618437357e-3f;
    y = y * r + 5.550332548e-2f;
    y = y * r + 2.402264791e-1f;
    y = y * r + 6.931472028e-1f;
    y = y * r + 1.0f;
    return (vf)((vi)y + ((vi)shifted << 23));
}

/* Round n values, 8 apart in a pair of words, to 15 bits of the scale that is returned. */
INLINE float round_words(const float *x, int n, int32_t *words) {
    vf most = splat(0);
    for (int i = 0; i < n; i += LANES) most = maximum(most, magnitude(*(const vf *)(x + i)));
    const float top = largest(most), inverse = top > TINY ? 32767 / top : 0;
    for (int i = 0; i < n; i += 32, words += 16)
        for (int lane = 0; lane < 8; lane += LANES) {
            vi r[4];
            for (int k = 0; k < 4; k++) r[k] = (vi)(*(const vf *)(x + i + 8 * k + lane) * inverse + ROUNDING);
            for (int k = 0; k < 2; k++) *(vi *)(words + 8 * k + lane) = (r[k] & 0xffff) | r[k + 2] << 16;
        }
    return top / 32767;
}

/* Round rows x [G, n] times the scales of their n elements to bytes, in groups of 32 with a scale each. base belongs to
   every sum of them with nibbles: the offsets, and what rounding takes from a nibble of 7.5, so that only the rest errs. */
INLINE void round_bytes(const float *x, int G, int n, const uint16_t *fp16, int limit, int32_t *words, float *scale,
                        float *base) {
    vf exact[4];
    for (int g = 0; g < G; g++) exact[g] = splat(0);
    for (int i = 0; i < n; i += 32) {
        vf value[4][32 / LANES], most[4];
        for (int k = 0; k < 32 / LANES; k++) {
            const int at = i + LANES * k;
            const vf width = from_fp16(fp16 + at), start = from_fp16(fp16 + n + at) + 7.5f * width;
            for (int g = 0; g < G; g++) {
                const vf given = *(const vf *)(x + g * n + at);
                value[g][k] = given * width;
                exact[g] += given * start;
                most[g] = k ? maximum(most[g], magnitude(value[g][k])) : magnitude(value[g][k]);
            }
        }
        for (int g = 0; g < G; g++) {
            const float top = largest(most[g]), inverse = top > TINY ? limit / top : 0, unit = top * (1.0f / limit);
            vi word[8 / LANES] = {{0}};
            vf sum = splat(0);
            for (int k = 0; k < 32 / LANES; k++) {
                const vf r = value[g][k] * inverse + ROUNDING;
                word[k % (8 / LANES)] |= ((vi)r & 255) << k / (8 / LANES) * 8;
                sum += r - ROUNDING;
            }
            exact[g] -= 7.5f * unit * sum;
            memcpy(words + g * n / 4 + i / 4, word, sizeof word);
            scale[g * n / 32 + i / 32] = unit;
        }
    }
    for (int g = 0; g < G; g++) base[g] = sum_lanes((f32v)exact[g]);
}

/* Lines are asked for so far ahead, in whole strips. */
#define AHEAD 8192

/* Where what follows a strip after AHEAD lies: in the block that begins at `block`, or else in the one read next. */
INLINE const uint8_t *ahead(const uint8_t *strip, int64_t strip_byte, const uint8_t *block, int64_t byte,
                            const uint8_t *next) {
    const int64_t whole = (AHEAD + strip_byte - 1) / strip_byte * strip_byte;
    const int64_t at = strip - block + (whole < byte ? whole : byte);
    return at < byte ? block + at : next + at - byte;
}

/* scores[g][t] of the first n tokens of a page; those of the others are not set, or of no meaning */
INLINE void score_page(const rows_t *q, const uint8_t *k, const uint8_t *next, int format, int G, int dim, int n,
                       float *scores) {
    const int64_t byte = block_byte(format, dim), pitch = byte / (PAGE / STRIP);
    for (int t = 0; t < n; t += STRIP) {
        const uint8_t *strip = k + t / STRIP * pitch;
        vf sum[4][PARTS];
        strip_products(q, strip, ahead(strip, pitch, k, byte, next), format, 1, G, dim, sum);
        for (int g = 0; g < G; g++)
            for (int p = 0; p < PARTS; p++) *(vf *)(scores + g * PAGE + t + LANES * p) = sum[g][p];
    }
}

/* acc[g][d] += sum of the page's values, weighted */
INLINE void add_values(const rows_t *p, const uint8_t *v, const uint8_t *next, int format, int G, int dim, float *acc,
                       int stride) {
    const int64_t byte = block_byte(format, dim), pitch = block_byte(format, STRIP);
    for (int d = 0; d < dim; d += STRIP) {
        const uint8_t *strip = v + d / STRIP * pitch;
        vf sum[4][PARTS];
        strip_products(p, strip, ahead(strip, pitch, v, byte, next), format, 0, G, PAGE, sum);
        for (int g = 0; g < G; g++)
            for (int i = 0; i < PARTS; i++) *(vf *)(acc + g * stride + d + LANES * i) += sum[g][i];
    }
}

/* Online softmax: turn scores into weights relative to the new maximum, rescale what was summed before. */
INLINE void soften(float *scores, int G, int dim, float *state, int stride) {
    for (int g = 0; g < G; g++) {
        float *s = scores + g * PAGE, *acc = state + g * stride;
        vf m = *(vf *)s;
        for (int t = LANES; t < PAGE; t += LANES) m = maximum(m, *(vf *)(s + t));
        float before = acc[dim], now = largest(m);
        if (now <= before) now = before;
        else {
            vf scale = power_of_2(splat((before - now) * LOG2_E));
            for (int d = 0; d < dim; d += LANES) *(vf *)(acc + d) *= scale;
            acc[dim + 1] *= scale[0];
            acc[dim] = now;
        }
        vf sum = splat(0);
        for (int t = 0; t < PAGE; t += LANES) {
            vf p = power_of_2(*(vf *)(s + t) * LOG2_E - now * LOG2_E);
            *(vf *)(s + t) = p;
            sum += p;
        }
        acc[dim + 1] += sum_lanes((f32v)sum);
    }
}

/* Multiply rows of 64 by a vector of scales. */
INLINE void scale_rows(float *rows, int G, const float *scale) {
    for (int g = 0; g < G; g++)
        for (int t = 0; t < PAGE; t += LANES) *(vf *)(rows + g * PAGE + t) *= *(const vf *)(scale + t);
}

/* c tanh(s / c) */
INLINE void cap(float *scores, int G, float soft_cap) {
    for (int t = 0; t < G * PAGE; t += LANES) {
        vf *s = (vf *)(scores + t);
        const vf e = power_of_2((vf)((vi)(*s * (2 * LOG2_E / soft_cap)) | (int32_t)0x80000000)); /* e^-2|z| */
        const vf bounded = soft_cap * (1 - e) / (1 + e);
        *s = (vf)((vi)bounded | ((vi)*s & (int32_t)0x80000000));
    }
}

/* Of a page's first n tokens only those from `first` on are seen. */
INLINE void hide(const attention *a, int G, int h, int page, int first, int n, float *scores) {
    const float *mask = a->mask ? a->mask + h * a->mask_stride + (int64_t)page * PAGE : 0;
    for (int g = 0; g < G; g++) {
        if (mask)
            for (int t = 0; t < n; t++) scores[g * PAGE + t] += mask[t];
        for (int t = 0; t < first; t++) scores[g * PAGE + t] = -__builtin_inff();
        for (int t = n; t < PAGE; t++) scores[g * PAGE + t] = -__builtin_inff();
    }
}

/* Which page is the i-th that head h reads. */
INLINE int page_at(const attention *a, int h, int i) {
    return a->pages ? a->pages[h * a->page_stride + a->first_page + i] : a->first_page + i;
}

/* The rows of a head's queries that do not depend on the page: INT8 rounds them once. */
typedef struct {
    int32_t *words;
    float *scale;
} queries;

/* Turn scores into weights and the weights into what the values are multiplied with. */
INLINE rows_t weigh(const kv_layer *kv, int format, int G, int64_t at, float *scores, int32_t *words, float *scale,
                    float *acc, int stride) {
    rows_t p = {scores, words, scale, {0}};
    soften(scores, G, kv->head_dim, acc, stride);
    if (format == INT8) scale_rows(scores, G, (const float *)kv->v_scale + at * PAGE);
    if (format == INT8)
        for (int g = 0; g < G; g++) scale[g] = round_words(scores + g * PAGE, PAGE, words + g * PAGE / 2);
    if (format == INT4)
        round_bytes(scores, G, PAGE, (const uint16_t *)kv->v_scale + at * 2 * PAGE, 255, words, scale, p.base);
    return p;
}

/* The i-th page read of head h: rows first..first + G - 1 of its queries into their states. */
INLINE void page_step(const attention *a, int format, int G, int h, int first, int i, const queries *given, float *acc) {
    const kv_layer *kv = a->kv;
    const int dim = kv->head_dim, stride = dim + 2, last = i == a->n_pages - 1, n = last ? a->n_last : PAGE;
    const int64_t byte = block_byte(format, dim), row = (int64_t)h * a->n_groups + first;
    const int page = page_at(a, h, i), n_unseen = i ? 0 : a->n_unseen;
    const int64_t at = (int64_t)h * kv->capacity + page;
    const int64_t after = (int64_t)h * kv->capacity + (last ? page : page_at(a, h, i + 1));
    const uint8_t *k = kv->k + at * byte, *v = kv->v + at * byte;
    int32_t words[MAX_DIM];
    float scores[4 * PAGE], scale[4 * MAX_DIM / 32];
    rows_t q = {a->q + row * dim, words, scale, {0}};

    if (last) memset(scores, 0, sizeof scores);
    if (format == INT8) q = (rows_t){0, given->words + first * dim / 2, given->scale + first, {0}};
    if (format == INT4 && !last)
        round_bytes(q.x, G, dim, (const uint16_t *)kv->k_scale + at * 2 * dim, 127, words, scale, q.base);
    if (format == INT4 && last) {
        const uint8_t *open = (const uint8_t *)kv->open + h * block_byte(BF16, dim);
        score_page(&q, open, v, BF16, G, dim, n, scores);
    } else score_page(&q, k, v, format, G, dim, n, scores);
    if (format == INT8) scale_rows(scores, G, (const float *)kv->k_scale + at * PAGE);
    if (a->soft_cap) cap(scores, G, a->soft_cap);
    if (a->mask || last || n_unseen) hide(a, G, h, page, n_unseen, n, scores);
    const rows_t p = weigh(kv, format, G, at, scores, words, scale, acc, stride);
    add_values(&p, v, kv->k + after * byte, format, G, dim, acc, stride);
}

/* Rows that meet a strip together: as many as their sums find registers for, which are 16 but on ARM. */
#if LANES == 8 || defined(__aarch64__)
#define MOST_ROWS 4
#else
#define MOST_ROWS 2
#endif

/* One copy of the loop for each format and number of rows, so that accumulators stay in registers. */
#define STEP(F)                                                                                \
    static void step_##F(const attention *a, int h, int i, const queries *q, float *state) {   \
        const int n = a->n_groups, stride = a->kv->head_dim + 2;                               \
        int first = 0;                                                                         \
        for (; n - first >= MOST_ROWS; first += MOST_ROWS)                                     \
            page_step(a, F, MOST_ROWS, h, first, i, q, state + first * stride);                \
        state += first * stride;                                                               \
        if (MOST_ROWS > 3 && n - first == 3) page_step(a, F, 3, h, first, i, q, state);        \
        if (MOST_ROWS > 2 && n - first == 2) page_step(a, F, 2, h, first, i, q, state);        \
        if (n - first == 1) page_step(a, F, 1, h, first, i, q, state);                         \
    }
STEP(FP32) STEP(BF16) STEP(FP16) STEP(INT8) STEP(INT4)

/* What one of n_threads does: an equal run of the pages of all heads, into its own state. */
void attention_share(const attention *a, int thread, int n_threads) {
    static void (*const steps[])(const attention *, int, int, const queries *, float *) = {
        step_FP32, step_BF16, step_FP16, step_INT8, step_INT4};
    const int dim = a->kv->head_dim, rows = a->kv->n_heads * a->n_groups;
    const int64_t items = (int64_t)a->kv->n_heads * a->n_pages, of_head = (int64_t)a->n_groups * (dim + 2);
    float *state = a->state + (int64_t)thread * rows * (dim + 2);
    memset(state, 0, sizeof(float) * rows * (dim + 2));
    for (int r = 0; r < rows; r++) state[r * (dim + 2) + dim] = LOWEST;
    int32_t words[a->n_groups * dim / 2];
    float scale[a->n_groups];
    const queries q = {words, scale};
    int of = -1; /* whose queries are rounded */
    for (int64_t i = items * thread / n_threads, end = items * (thread + 1) / n_threads; i < end; i++) {
        const int h = (int)(i / a->n_pages);
        if (a->kv->format == INT8 && h != of)
            for (int g = 0; g < a->n_groups; g++)
                scale[g] = round_words(a->q + (h * a->n_groups + g) * dim, dim, words + g * dim / 2);
        of = h;
        steps[a->kv->format](a, h, (int)(i % a->n_pages), &q, state + h * of_head);
    }
}

/* Merge the threads' states of rows first..last - 1 of the heads * n_groups queries. */
void attention_merge(const attention *a, int first_row, int last_row, int n_threads) {
    const int dim = a->kv->head_dim;
    const int64_t pitch = (int64_t)a->kv->n_heads * a->n_groups * (dim + 2);
    for (int r = first_row; r < last_row; r++) {
        const float *first = a->state + (int64_t)r * (dim + 2);
        float m = LOWEST, sum = 0, *out = a->out + (int64_t)r * dim;
        for (int t = 0; t < n_threads; t++) m = first[t * pitch + dim] > m ? first[t * pitch + dim] : m;
        memset(out, 0, sizeof(float) * dim);
        for (int t = 0; t < n_threads; t++) {
            const float *s = first + t * pitch, w = power_of_2(splat((s[dim] - m) * LOG2_E))[0];
            sum += w * s[dim + 1];
            for (int d = 0; d < dim; d++) out[d] += w * s[d];
        }
        for (int d = 0; d < dim; d++) out[d] /= sum;
    }
}

void trilemma_attend(const attention *a) {
    const int rows = a->kv->n_heads * a->n_groups;
#pragma omp parallel num_threads(a->n_threads)
    {
        const int thread = omp_get_thread_num(), n = omp_get_num_threads();
        attention_share(a, thread, n);
#pragma omp barrier
        attention_merge(a, rows * thread / n, rows * (thread + 1) / n, n);
    }
}
