/* One token through a Llama-family decoder: one call, one parallel region, a barrier where a stage needs another's
   whole result. What costs less than a barrier (the norm and the rounding of one row) every thread does for itself. */

#include <math.h>

#include "kv_pages.h"

typedef struct {
    const float *attention_norm, *feed_forward_norm;           /* [hidden_size] */
    const float *post_attention_norm, *post_feed_forward_norm; /* [hidden_size], of what is added to x, or NULL */
    const float *head_norms;                                   /* [n_heads + n_kv_heads, head_dim], or NULL */
    const float *rotations; /* [positions, head_dim] cosine and sine in turn; NULL: nothing is rotated */
    linear_t qkv, out, gate_up, down;
} layer_t;

typedef struct {
    const layer_t *layers;
    const float *norm;
    linear_t head;
    int32_t n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, head_dim, activation;
    float rms_eps, q_scale;
} decoder_t;

enum { SILU, GELU }; /* activation of the gate; GELU by its hyperbolic tangent */

enum { N_STAGES = 5 }; /* of a layer: qkv, rotation and cache write, attention, output projection, mlp */

static float rms_factor(const float *x, int n, float eps) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return 1 / sqrtf(sum / n + eps);
}

static void normalise(const float *x, const float *weight, int n, float eps, float *out) {
    const float factor = rms_factor(x, n, eps);
#pragma omp simd
    for (int i = 0; i < n; i++) out[i] = x[i] * weight[i] * factor;
}

/* Rotate neighbouring pairs of one head by the position's angles, if any, and scale it. */
static void rotate(float *head, const float *rotation, int head_dim, float scale) {
    if (!rotation) {
        for (int i = 0; i < head_dim; i++) head[i] *= scale;
        return;
    }
    for (int i = 0; i < head_dim; i += 2) {
        const float real = head[i] * scale, imaginary = head[i + 1] * scale;
        head[i] = real * rotation[i] - imaginary * rotation[i + 1];
        head[i + 1] = real * rotation[i + 1] + imaginary * rotation[i];
    }
}

typedef struct {
    float *x, *behind, *heads, *attended, *inner, *state;
} scratch_t;

static scratch_t scratch_of(const decoder_t *m, float *at) {
    scratch_t s = {.x = at};
    s.behind = s.x + m->hidden_size;
    s.heads = s.behind + m->hidden_size;
    s.attended = s.heads + (m->n_heads + 2 * m->n_kv_heads) * m->head_dim;
    s.inner = s.attended + m->n_heads * m->head_dim;
    s.state = s.inner + 2 * m->intermediate_size;
    return s;
}

/* Floats of scratch memory that `trilemma_decode` needs. */
int64_t trilemma_scratch_floats(const decoder_t *m, int n_threads) {
    const scratch_t s = scratch_of(m, (float *)0);
    return s.state - (float *)0 + (int64_t)n_threads * m->n_heads * (m->head_dim + 2);
}

INLINE void add_rows(const linear_t *linear, const row_t *row, int first, int last, float *x) {
    float y[64];
    for (int r = first; r < last; r += 64) {
        const int end = r + 64 < last ? r + 64 : last;
        linear_rows(linear, row, r, end, y);
        for (int i = r; i < end; i++) x[i] += y[i - r];
    }
}

/* x / (1 + e^-z), z = x in SiLU; the tangent in GELU is another such quotient. */
static void activate(float *gate, const float *up, int n, int activation) {
    const float linear = activation == GELU ? 1.5957691216f : 1.0f, cubic = activation == GELU ? 0.0713548162726f : 0.0f;
#pragma omp simd
    for (int i = 0; i < n; i++) {
        const float z = gate[i] * (linear + cubic * gate[i] * gate[i]);
        const float e = exp_negative(z < 0 ? z : -z);
        gate[i] = gate[i] * (z < 0 ? e : 1.0f) / (1 + e) * up[i];
    }
}

static void gate_rows(const decoder_t *m, const layer_t *layer, const row_t *row, int first, int last, float *inner) {
    const int n = m->intermediate_size;
    float *up = inner + n;
    linear_rows(&layer->gate_up, row, first, last, inner + first);
    linear_rows(&layer->gate_up, row, n + first, n + last, up + first);
    activate(inner + first, up + first, last - first, m->activation);
}

#define SHARE(n) share_of((n), thread, n_threads), share_of((n), thread + 1, n_threads)
#define STAGE_ENDS(stage)                                            \
    do {                                                             \
        _Pragma("omp barrier") if (stage_s && thread == 0) {         \
            const double now_s = omp_get_wtime();                    \
            stage_s[(stage)] = now_s - last_s;                       \
            last_s = now_s;                                          \
        }                                                            \
    } while (0)

/* Add a thread's rows of a product to x: as they are, or the whole of it normalised. */
static void add_product(const decoder_t *m, const linear_t *linear, const row_t *row, const float *norm,
                        const scratch_t *s, int thread, int n_threads) {
    const int first = share_of(m->hidden_size, thread, n_threads), last = share_of(m->hidden_size, thread + 1, n_threads);
    if (!norm) {
        add_rows(linear, row, first, last, s->x);
        return;
    }
    linear_rows(linear, row, first, last, s->behind + first);
#pragma omp barrier
    const float factor = rms_factor(s->behind, m->hidden_size, m->rms_eps);
    for (int i = first; i < last; i++) s->x[i] += s->behind[i] * norm[i] * factor;
}

/* Where a token stands: its place in the cache, and in the text. */
typedef struct {
    int cached, text;
} position_t;

/* Normalise, rotate and cache the heads of a thread. */
static void place_heads(const decoder_t *m, const layer_t *layer, kv_layer *kv, float *heads, position_t at, int thread,
                        int n_threads) {
    const int d = m->head_dim, n_rotated = m->n_heads + m->n_kv_heads;
    const float *rotation = layer->rotations ? layer->rotations + (int64_t)at.text * d : NULL;
    for (int head = thread; head < n_rotated; head += n_threads) {
        const int kv_head = head - m->n_heads;
        float *x = heads + head * d;
        if (layer->head_norms) normalise(x, layer->head_norms + head * d, d, m->rms_eps, x);
        rotate(x, rotation, d, kv_head < 0 ? m->q_scale : 1);
        if (kv_head >= 0) kv_write_head(kv, at.cached, x, heads + (n_rotated + kv_head) * d, kv_head);
    }
}

/* `given` lacks the query, the scratch memory and the output. */
static void run_layer(const decoder_t *m, const layer_t *layer, const attention *given, const scratch_t *s,
                      position_t at, int thread, int n_threads, double *stage_s) {
    const int n_attended = m->n_heads * m->head_dim;
    const int wider = m->hidden_size > m->intermediate_size ? m->hidden_size : m->intermediate_size;
    double last_s = stage_s ? omp_get_wtime() : 0;
    attention a = *given;
    a.q = s->heads;
    a.state = s->state;
    a.out = s->attended;
    float normalised[m->hidden_size];
    ROW_BUFFERS(wider > n_attended ? wider : n_attended);
    row_t row = ROW(normalised);
    normalise(s->x, layer->attention_norm, m->hidden_size, m->rms_eps, normalised);
    round_row(&layer->qkv, &row);
    const int first = share_of(layer->qkv.n_out, thread, n_threads);
    linear_rows(&layer->qkv, &row, first, share_of(layer->qkv.n_out, thread + 1, n_threads), s->heads + first);
    STAGE_ENDS(0);
    place_heads(m, layer, (kv_layer *)a.kv, s->heads, at, thread, n_threads);
    STAGE_ENDS(1);
    attention_share(&a, thread, n_threads);
#pragma omp barrier
    attention_merge(&a, m->n_heads * thread / n_threads, m->n_heads * (thread + 1) / n_threads, n_threads);
    STAGE_ENDS(2);
    row = ROW(s->attended);
    round_row(&layer->out, &row);
    add_product(m, &layer->out, &row, layer->post_attention_norm, s, thread, n_threads);
    STAGE_ENDS(3);
    row = ROW(normalised);
    normalise(s->x, layer->feed_forward_norm, m->hidden_size, m->rms_eps, normalised);
    round_row(&layer->gate_up, &row);
    gate_rows(m, layer, &row, SHARE(m->intermediate_size), s->inner);
#pragma omp barrier
    row = ROW(s->inner);
    round_row(&layer->down, &row);
    add_product(m, &layer->down, &row, layer->post_feed_forward_norm, s, thread, n_threads);
    STAGE_ENDS(4);
}

/* Process one token: its embedding [hidden_size], its places in the cache and in the text, and what each layer attends
   to; logits [vocab]. `stage_s`, [n_layers * N_STAGES + 1], takes the seconds of the stages and of the head, or is
   NULL. */
void trilemma_decode(const decoder_t *m, const attention *layers, const float *embedding, int cached, int text,
                     float *scratch, float *logits, double *stage_s, int n_threads) {
    const position_t at = {cached, text};
    const scratch_t s = scratch_of(m, scratch);
    memcpy(s.x, embedding, m->hidden_size * sizeof *embedding);
#pragma omp parallel num_threads(n_threads)
    {
        const int thread = omp_get_thread_num(), n = omp_get_num_threads();
        for (int i = 0; i < m->n_layers; i++) {
            double *layer_s = stage_s ? stage_s + i * N_STAGES : NULL;
            run_layer(m, m->layers + i, layers + i, &s, at, thread, n, layer_s);
        }
        const double start_s = stage_s ? omp_get_wtime() : 0;
        float normalised[m->hidden_size];
        ROW_BUFFERS(m->hidden_size);
        row_t row = ROW(normalised);
        normalise(s.x, m->norm, m->hidden_size, m->rms_eps, normalised);
        round_row(&m->head, &row);
        const int first = share_of(m->head.n_out, thread, n);
        linear_rows(&m->head, &row, first, share_of(m->head.n_out, thread + 1, n), logits + first);
#pragma omp barrier
        if (stage_s && thread == 0) stage_s[m->n_layers * N_STAGES] = omp_get_wtime() - start_s;
    }
}
