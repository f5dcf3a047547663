/* Decode attention of one token over a paged KV cache (kv_pages.h): all pages or a list of them, read in place.

   Scores are vectorised over tokens and outputs over channels, so nothing is summed across a vector. Softmax is online,
   page by page; threads take equal runs of (head, page), and their partial states are merged at the end. */

#include "kv_pages.h"

#define LOWEST -1e30f /* below any score */

INLINE vf maximum(vf a, vf b) {
    vi larger = a > b;
    return (vf)(((vi)a & larger) | ((vi)b & ~larger));
}

INLINE float largest(vf x) {
    float m = x[0];
    for (int i = 1; i < LANES; i++) m = x[i] > m ? x[i] : m;
    return m;
}

INLINE float total(vf x) {
    float s = 0;
    for (int i = 0; i < LANES; i++) s += x[i];
    return s;
}

/* exp(x) for x <= 0, relative error 2e-7; 0 below -87. */
INLINE vf exponential(vf x) {
    vi counts = x > splat(-87.0f);
    x = maximum(x, splat(-87.0f));
    vf shifted = x * 1.44269504f + 12582912.0f; /* rounds to an integer in the low bits */
    vf n = shifted - 12582912.0f;
    vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vf y = splat(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    vi power = (__builtin_convertvector(n, vi) + 127) << 23;
    return (vf)((vi)(y * (vf)power) & counts);
}

INLINE void prefetch(const uint8_t *p, int64_t byte) {
    for (int64_t i = 0; i < byte; i += 64) __builtin_prefetch(p + i, 0, 2);
}

/* Pairs of vectors worked on together: enough independent sums to hide the latency of a product. */
#define PAIRS(G) ((G) == 1 ? 4 : (G) == 2 ? 2 : 1)

/* scores[g][t] = base[g] + sum_d q[g][d] k[d][t] of a page's first n tokens; those of the others are not set */
INLINE void score_page(const float *q, const float *base, const uint8_t *k, const uint8_t *next, int format, int G,
                       int dim, int n, float *scores) {
    const int width = PAIRS(G), share = row_byte(format) * width / 4;
    for (int first = 0; first < 4 && first * 2 * LANES < n; first += width) {
        vf sum[4][8];
        for (int g = 0; g < G; g++)
            for (int i = 0; i < 2 * width; i++) sum[g][i] = splat(0);
#pragma GCC unroll 2
        for (int d = 0; d < dim; d++) {
            if (next) prefetch(next + (first / width * dim + d) * share, share);
            for (int j = 0; j < width; j++) {
                vf x, y;
                load2(k + d * row_byte(format), format, first + j, &x, &y);
                for (int g = 0; g < G; g++) {
                    sum[g][2 * j] += q[g * dim + d] * x;
                    sum[g][2 * j + 1] += q[g * dim + d] * y;
                }
            }
        }
        for (int g = 0; g < G; g++)
            for (int i = 0; i < 2 * width; i++)
                *(vf *)(scores + g * PAGE + (2 * first + i) * LANES) = sum[g][i] * unit(format, 2 * first + i) + base[g];
    }
}

/* acc[g][d] += base[g] + sum_t p[g][t] v[t][d] of a page's first n tokens */
INLINE void add_values(const float *p, const float *base, const uint8_t *v, const uint8_t *next, int format, int G,
                       int dim, int n, float *acc, int stride) {
    const int width = PAIRS(G), share = row_byte(format) * width / 4, pitch = dim / 64 * row_byte(format);
    for (int block = 0; block < dim / 64; block++)
        for (int first = 0; first < 4; first += width) {
            vf sum[4][8];
            for (int g = 0; g < G; g++)
                for (int i = 0; i < 2 * width; i++) sum[g][i] = splat(0);
#pragma GCC unroll 2
            for (int t = 0; t < n; t++) {
                if (next) prefetch(next + ((block * 4 + first) / width * PAGE + t) * share, share);
                for (int j = 0; j < width; j++) {
                    vf x, y;
                    load2(v + t * pitch + block * row_byte(format), format, first + j, &x, &y);
                    for (int g = 0; g < G; g++) {
                        sum[g][2 * j] += p[g * PAGE + t] * x;
                        sum[g][2 * j + 1] += p[g * PAGE + t] * y;
                    }
                }
            }
            for (int g = 0; g < G; g++)
                for (int i = 0; i < 2 * width; i++)
                    *(vf *)(acc + g * stride + 64 * block + (2 * first + i) * LANES) +=
                        sum[g][i] * unit(format, 2 * first + i) + base[g];
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
            vf scale = exponential(splat(before - now));
            for (int d = 0; d < dim; d += LANES) *(vf *)(acc + d) *= scale;
            acc[dim + 1] *= scale[0];
            acc[dim] = now;
        }
        vf sum = splat(0);
        for (int t = 0; t < PAGE; t += LANES) {
            vf p = exponential(*(vf *)(s + t) - now);
            *(vf *)(s + t) = p;
            sum += p;
        }
        acc[dim + 1] += total(sum);
    }
}

/* Multiply rows of 64 by a vector of scales. */
INLINE void scale_rows(float *rows, int G, const float *scale) {
    for (int g = 0; g < G; g++)
        for (int t = 0; t < PAGE; t += LANES) *(vf *)(rows + g * PAGE + t) *= *(const vf *)(scale + t);
}

/* out = x * scale, base[g] = sum x * offset: a row in 4 bits is scale * nibble + offset. */
INLINE void fold(const float *x, int G, int n, const uint16_t *scale, float *out, float *base) {
    for (int g = 0; g < G; g++) {
        vf sum = splat(0);
        for (int i = 0; i < n; i += LANES) {
            vf value = *(const vf *)(x + g * n + i);
            sum += value * from_fp16(scale + n + i);
            *(vf *)(out + g * n + i) = value * from_fp16(scale + i);
        }
        base[g] = total(sum);
    }
}

/* c tanh(s / c) */
INLINE void cap(float *scores, int G, float soft_cap) {
    for (int t = 0; t < G * PAGE; t += LANES) {
        vf *s = (vf *)(scores + t);
        const vf e = exponential((vf)((vi)(*s * (2 / soft_cap)) | (int32_t)0x80000000)); /* e^-2|z| */
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

/* The i-th page read of head h: rows first..first + G - 1 of its queries into their states. */
INLINE void page_step(const attention *a, int format, int G, int h, int first, int i, float *acc) {
    const kv_layer *kv = a->kv;
    const int dim = kv->head_dim, stride = dim + 2, last = i == a->n_pages - 1, n = last ? a->n_last : PAGE;
    const int64_t page_byte = (int64_t)dim * row_byte(format), row = (int64_t)h * a->n_groups + first;
    const int page = page_at(a, h, i), n_unseen = i ? 0 : a->n_unseen;
    const int64_t at = (int64_t)h * kv->capacity + page;
    const uint8_t *k = kv->k + at * page_byte, *v = kv->v + at * page_byte;
    const float *q = a->q + row * dim;
    float scores[4 * PAGE], folded[4 * MAX_DIM], base[4] = {0};

    if (last) memset(scores, 0, sizeof scores);
    /* a listed page may lie anywhere: no hardware guesses it */
    const int64_t ahead = ((int64_t)h * kv->capacity + (last ? page : page_at(a, h, i + 1))) * page_byte;
    const uint8_t *next_k = last ? 0 : kv->k + ahead, *next_v = last ? 0 : kv->v + ahead;
    if (format != INT4)
        score_page(q, base, k, next_k, format, G, dim, n, scores);
    else if (last)
        score_page(q, base, (const uint8_t *)(kv->open + (int64_t)h * dim * PAGE), 0, BF16, G, dim, n, scores);
    else {
        fold(q, G, dim, (const uint16_t *)kv->k_scale + at * 2 * dim, folded, base);
        score_page(folded, base, k, next_k, format, G, dim, n, scores);
    }
    if (format == INT8) scale_rows(scores, G, (const float *)kv->k_scale + at * PAGE);
    if (a->soft_cap) cap(scores, G, a->soft_cap);
    if (a->mask || last || n_unseen) hide(a, G, h, page, n_unseen, n, scores);
    if (a->scores)
        for (int g = 0; g < G; g++)
            memcpy(a->scores + ((row + g) * a->n_pages + i) * PAGE, scores + g * PAGE, sizeof(float) * PAGE);
    soften(scores, G, dim, acc, stride);
    if (format == INT8) scale_rows(scores, G, (const float *)kv->v_scale + at * PAGE);
    memset(base, 0, sizeof base);
    if (format == INT4) fold(scores, G, PAGE, (const uint16_t *)kv->v_scale + at * 2 * PAGE, scores, base);
    add_values(scores, base, v, next_v, format, G, dim, n, acc, stride);
}

/* One copy of the loop for each format and number of rows, so that accumulators stay in registers. */
#define STEP(F)                                                                            \
    static void step_##F(const attention *a, int h, int i, float *state) {                 \
        const int n = a->n_groups, stride = a->kv->head_dim + 2;                           \
        int first = 0;                                                                     \
        for (; n - first >= 4; first += 4)                                                 \
            page_step(a, F, 4, h, first, i, state + first * stride);                       \
        state += first * stride;                                                           \
        switch (n - first) {                                                               \
        case 3: page_step(a, F, 3, h, first, i, state); break;                             \
        case 2: page_step(a, F, 2, h, first, i, state); break;                             \
        case 1: page_step(a, F, 1, h, first, i, state); break;                             \
        }                                                                                  \
    }
STEP(FP32) STEP(BF16) STEP(FP16) STEP(INT8) STEP(INT4)

/* What one of n_threads does: an equal run of the pages of all heads, into its own state. */
void attention_share(const attention *a, int thread, int n_threads) {
    static void (*const steps[])(const attention *, int, int, float *) = {step_FP32, step_BF16, step_FP16, step_INT8,
                                                                          step_INT4};
    const int dim = a->kv->head_dim, rows = a->kv->n_heads * a->n_groups;
    const int64_t items = (int64_t)a->kv->n_heads * a->n_pages, of_head = (int64_t)a->n_groups * (dim + 2);
    float *state = a->state + (int64_t)thread * rows * (dim + 2);
    memset(state, 0, sizeof(float) * rows * (dim + 2));
    for (int r = 0; r < rows; r++) state[r * (dim + 2) + dim] = LOWEST;
    for (int64_t i = items * thread / n_threads, end = items * (thread + 1) / n_threads; i < end; i++)
        steps[a->kv->format](a, (int)(i / a->n_pages), (int)(i % a->n_pages), state + i / a->n_pages * of_head);
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
            const float *s = first + t * pitch, w = exponential(splat(s[dim] - m))[0];
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
