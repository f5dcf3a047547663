/* A matrix times one row of activations, rows first..last - 1 of the result. */

#ifndef __clang__
#pragma GCC optimize("no-tree-reassoc") /* in another order the sums of int4 products take a tenth longer */
#endif

#include "native.h"

/* Scales are read as fp16 bits moved into a float (too small by 2^112) and meet activations' scales that are too large
   by 2^56: neither overflows, and the product of a row is corrected once, by 2^56. */
#define CORRECTION 0x1p56f
/* Bytes ahead of which weights are asked for. The processor's own prefetching stays too close: without this, unpacking
   and reading take turns instead of time together. */
#ifndef AHEAD
#define AHEAD 2048
#endif

#ifdef __ARM_FEATURE_DOTPROD
/* Processors that multiply four bytes at once get the inputs as bytes, in the order in which a word holds its weights; in
   as much room as the others need. */
INLINE void prepare_for_nibbles(int16_t *q, int n) {
    for (; n > 0; n -= 8, q += 8) {
        const int8_t bytes[8] = {(int8_t)q[0], (int8_t)q[4], (int8_t)q[1], (int8_t)q[5],
                                 (int8_t)q[2], (int8_t)q[6], (int8_t)q[3], (int8_t)q[7]};
        memcpy(q, bytes, sizeof bytes);
    }
}

INLINE void prepare_for_bytes(int16_t *q, int n) {
    for (int i = n - 4; i >= 0; i -= 4) {
        const int8_t bytes[4] = {(int8_t)q[i], (int8_t)q[i + 2], (int8_t)q[i + 1], (int8_t)q[i + 3]};
        memcpy(q + i / 4 * 6, bytes, sizeof bytes);
    }
}

INLINE i32v dots(i32v sum, u8v weights, const int16_t *x) {
    return (i32v)vdotq_s32((int32x4_t)sum, (int8x16_t)weights, vreinterpretq_s8_s32(vdupq_n_s32(LOAD(int32_t, x))));
}

typedef i32v nibble_sums;

INLINE nibble_sums add_nibbles(nibble_sums sum, u16v weights, const int16_t *x) {
    return dots(dots(sum, (u8v)weights & 15, x), (u8v)weights >> 4, x + 2);
}

INLINE i32v whole_nibbles(nibble_sums sum) { return sum; }

typedef struct {
    i32v all;
} byte_products;

INLINE void add_products_of_bytes(byte_products *sum, u16v weights, const int16_t *x) {
    sum->all = dots(sum->all, (u8v)weights ^ 128, x);
}

INLINE i32v whole_products(const byte_products *sum) { return sum->all; }
#else
/* A word that holds the nibbles n0..n3 is multiplied whole, and so is what shifts by 4, 8 and 12 leave of it: with inputs
   x0, x1 - 16 x0, x2 - 16 x1, x3 - 16 x2 the four products sum to n0 x0 + .. + n3 x3. Nothing has to be masked, and what
   overflows 16 bits on the way comes back, since the sum itself does not (the words are unsigned, whose overflow is
   defined). Words hold every other input of eight. */
INLINE void prepare_for_nibbles(int16_t *q, int n) {
    for (int first = 0; first < n; first += 8)
        for (int i = first + 7; i >= first + 2; i--) q[i] = (int16_t)(q[i] - 16 * q[i - 2]);
}

/* Two inputs, for the two words of each row. */
INLINE u16v both(const int16_t *x) { return (u16v)(LOAD(uint32_t, x) - (u32v){0}); }

typedef u16v nibble_sums; /* in two words, of 16 products each */

INLINE nibble_sums add_nibbles(nibble_sums sum, u16v v, const int16_t *x) {
    return sum + (v * both(x) + (v >> 4) * both(x + 2) + (v >> 8) * both(x + 4) + (v >> 12) * both(x + 6));
}

INLINE i32v whole_nibbles(nibble_sums sum) { return ((i32v)sum << 16 >> 16) + ((i32v)sum >> 16); }

/* The same for two bytes in a word, by 256: of each 4 inputs, in place of them, the products of two words are x0, x1,
   x2 - 256 x0, x3 - 256 x1. Bytes are held plus 128, which the third pair takes away again; it also makes the sums of
   the lower words positive, by 2^15. */
INLINE void prepare_for_bytes(int16_t *q, int n) {
    for (int i = n - 4, to = i / 4 * 6; i >= 0; i -= 4, to -= 6)
        for (int h = 1; h >= 0; h--) {
            const int x = q[i + h], y = q[i + 2 + h];
            q[to + 4 + h] = (int16_t)(-128 * (x + y) + (h ? 0 : 1 << 15));
            q[to + 2 + h] = (int16_t)(y - 256 * x);
            q[to + h] = (int16_t)x;
        }
}

typedef struct {
    u32v all, upper; /* sums of pairs of words, and of their upper ones */
} byte_products;

INLINE void add_products_of_bytes(byte_products *sum, u16v weights, const int16_t *x) {
    const u16v words = weights * both(x) + (weights >> 8) * both(x + 2) + both(x + 4);
    sum->all += (u32v)words;
    sum->upper += (u32v)((i32v)words >> 16);
}

/* Of 32 inputs. */
INLINE i32v whole_products(const byte_products *sum) {
    return (i32v)(sum->all - (sum->upper << 16) + sum->upper - (8 << 15));
}
#endif

/* Of each 16 floats the even ones, then the odd ones: as shifting and masking words of two bf16 gives them. */
INLINE void even_then_odd(const float *x, int n, void *out) {
    const int whole = n / 16 * 16;
    float parts[16] = {0};
    for (int first = 0; first < whole; first += 16) {
        for (int i = 0; i < 8; i++) parts[i] = x[first + 2 * i];
        for (int i = 0; i < 8; i++) parts[8 + i] = x[first + 2 * i + 1];
        memcpy((float *)out + first, parts, sizeof parts);
    }
    if (whole < n) { /* eight are left */
        for (int i = 0; i < 16; i++) parts[i] = i % 8 < 4 ? x[whole + i % 8 * 2 + i / 8] : 0;
        memcpy((float *)out + whole, parts, sizeof parts);
    }
}

/* Whether rows of floats are so short that they are quicker one by one, in one stream that is asked for AHEAD. */
INLINE int is_short(const linear_t *linear) { return linear->n_in * (linear->format == FP32 ? 4 : 2) <= AHEAD; }

/* Round each group of the row to -127..127 of its own scale. */
void round_row(const linear_t *linear, row_t *row) {
    if (linear->format == BF16 && !is_short(linear)) even_then_odd(row->x, linear->n_in, row->q);
    if (linear->format < INT8) return;
    const int n = linear->n_in, group = activation_group(linear), n_groups = (n + group - 1) / group;
    for (int g = 0; g < n_groups; g++) {
        const int length = n - g * group < group ? n - g * group : group;
        int16_t *q = row->q + g * group;
        int32_t sum;
        const float scale = round_group(row->x + g * group, length, q, &sum);
        row->scale[g] = scale * CORRECTION;
        row->sum[g] = row->scale[g] * (float)sum;
        if (linear->format == INT4) prepare_for_nibbles(q, length);
    }
    if (linear->format == INT8) prepare_for_bytes(row->q, n);
    else memset(row->q + n, 0, PAD * sizeof *row->q);
    for (int g = n_groups; g < n_groups + 16; g++) row->scale[g] = row->sum[g] = 0;
}

/* What comes AHEAD bytes after w, which may be in the next n blocks, or a share of them, beyond this one's end. */
INLINE const uint8_t *ahead(const uint8_t *w, const uint8_t *end, int n, size_t pitch) {
    return w + AHEAD + (end - w > AHEAD ? 0 : (n - 1) * pitch);
}

#define FOR_PARTS(n)               \
    for (int b = 0; b < (n); b++) \
        for (int p = 0; p < PARTS; p++)

/* The rows of n blocks. Rows lie side by side in a vector, so that nothing is summed across one, and scales are
   multiplied as vectors; inputs are read once for all the rows. */
INLINE void int4_blocks(const linear_t *linear, const row_t *row, int block, const int n, const int group, float *y) {
    const int n_groups = (linear->n_in + group - 1) / group;
    const size_t pitch = (size_t)n_groups * group * (BLOCK / 2), scale_pitch = (size_t)n_groups * BLOCK;
    const uint8_t *w = (const uint8_t *)linear->weight + block * pitch, *end = w + pitch;
    const int32_t *scales = (const int32_t *)linear->scale + block * scale_pitch;
    const int16_t *x = row->q;
    f32v sum[2][PARTS] = {{{0}}};
    for (int g = 0; g < n_groups; g++, scales += BLOCK) {
        i32v products[2][PARTS] = {{{0}}};
        for (int i = 0; i < group; i += 32, w += 256, x += 32) {
            nibble_sums sums[2][PARTS] = {{{0}}};
            const uint8_t *next = ahead(w, end, n, pitch);
            for (int b = 0; b < n; b++)
                for (int line = 0; line < 256; line += 64) __builtin_prefetch(next + b * pitch + line);
            for (int j = 0; j < 4; j++)
                FOR_PARTS(n) {
                    const u16v v = LOAD(u16v, w + b * pitch + 64 * j + VECTOR_BYTE * p);
                    sums[b][p] = add_nibbles(sums[b][p], v, x + 8 * j);
                }
            FOR_PARTS(n) products[b][p] += whole_nibbles(sums[b][p]);
        }
        FOR_PARTS(n) {
            const i32v u = LOAD(i32v, scales + b * scale_pitch + LANES * p);
            const f32v scale = (f32v)((u << 16 >> 3) & (int32_t)0x8fffe000) * row->scale[g];
            sum[b][p] += __builtin_convertvector(products[b][p], f32v) * scale;
            sum[b][p] += (f32v)((u >> 3) & (int32_t)0x8fffe000) * row->sum[g];
        }
    }
    FOR_PARTS(n) {
        const f32v rows = sum[b][p] * CORRECTION;
        memcpy(y + b * BLOCK + LANES * p, &rows, sizeof rows);
    }
}

INLINE void int8_blocks(const linear_t *linear, const row_t *row, int block, const int n, const int group, float *y) {
    const int n_groups = linear->n_in / GROUP_INT8;
    const size_t pitch = (size_t)linear->n_in * BLOCK, scale_pitch = (size_t)n_groups * BLOCK;
    const uint8_t *w = (const uint8_t *)linear->weight + block * pitch, *end = w + pitch;
    const uint16_t *fp16 = (const uint16_t *)linear->scale + block * scale_pitch;
    const int16_t *x = row->q;
    f32v sum[2][PARTS] = {{{0}}};
    for (int g = 0; g < n_groups; g++, fp16 += BLOCK) {
        byte_products products[2][PARTS];
        memset(products, 0, sizeof products);
        for (int j = 0; j < 8; j++, w += 64, x += 6) {
            const uint8_t *next = ahead(w, end, n, pitch);
            for (int b = 0; b < n; b++) __builtin_prefetch(next + b * pitch);
            FOR_PARTS(n) add_products_of_bytes(&products[b][p], LOAD(u16v, w + b * pitch + VECTOR_BYTE * p), x);
        }
        FOR_PARTS(n) {
            const u32v bits = load_wide(fp16 + b * scale_pitch + LANES * p);
            const f32v scale = group ? (f32v)((bits & 0x7fff) << 13) * row->scale[g] : row->scale[g] - (f32v){0};
            sum[b][p] += __builtin_convertvector(whole_products(&products[b][p]), f32v) * scale;
        }
    }
    FOR_PARTS(n) {
        const int at = b * BLOCK + LANES * p;
        const float *of_row = (const float *)linear->scale + block * BLOCK + at;
        const f32v rows = sum[b][p] * (group ? CORRECTION - (f32v){0} : LOAD(f32v, of_row) * (1 / CORRECTION));
        memcpy(y + at, &rows, sizeof rows);
    }
}

/* Products of 16 inputs with as many weights. */
INLINE void add_products(const float *x, const uint8_t *w, const int format, f32v *sum) {
    const int step = format == FP16 ? VECTOR_BYTE / 2 : VECTOR_BYTE;
    for (int lane = 0; lane < 8; lane += LANES, w += step) {
        const f32v first = LOAD(f32v, x + lane), second = LOAD(f32v, x + 8 + lane);
        if (format == FP32) {
            sum[0] += first * LOAD(f32v, w);
            sum[1] += second * LOAD(f32v, w + 32);
        } else if (format == BF16) {
            const u32v u = LOAD(u32v, w);
            sum[0] += first * (f32v)(u << 16);
            sum[1] += second * (f32v)(u & 0xffff0000u);
        } else {
            sum[0] += first * load_fp16(w);
            sum[1] += second * load_fp16(w + 16);
        }
    }
}

/* n rows from `first` on. Of four at once the processor's own prefetching fetches more than of one. */
INLINE void float_rows(const linear_t *linear, const row_t *row, int first, const int n, const int format, float *y) {
    const int n_in = linear->n_in, byte = format == FP32 ? 4 : 2, whole = n_in / 16 * 16;
    const size_t pitch = (size_t)n_in * byte;
    const uint8_t *w = (const uint8_t *)linear->weight + first * pitch;
    const float *x = format == BF16 ? (const float *)row->q : row->x;
    f32v sum[4][2] = {{{0}}};
    for (int i = 0; i < whole; i += 16) {
        const uint8_t *next = ahead(w + i * byte, w + pitch, n, pitch);
        for (int r = 0; r < n; r++) {
            __builtin_prefetch(next + r * pitch);
            add_products(x + i, w + r * pitch + i * byte, format, sum[r]);
        }
    }
    for (int r = 0; r < n; r++) {
        if (whole < n_in) { /* eight are left */
            float rest_x[16] = {0}, rest_w[16] = {0};
            memcpy(rest_x, x + whole, (format == BF16 ? 16 : 8) * sizeof *x);
            memcpy(rest_w, w + r * pitch + whole * byte, 8 * byte);
            add_products(rest_x, (const uint8_t *)rest_w, format, sum[r]);
        }
        y[r] = sum_lanes(sum[r][0] + sum[r][1]);
    }
}

INLINE f32v load_weights(const uint8_t *w, const int format) {
    if (format == FP32) return LOAD(f32v, w);
    if (format == FP16) return load_fp16(w);
    return (f32v)(load_wide(w) << 16);
}

/* A short row, inputs in their own order. */
INLINE float float_row(const linear_t *linear, const row_t *row, int r, const int format) {
    const int n_in = linear->n_in, byte = format == FP32 ? 4 : 2;
    const uint8_t *w = (const uint8_t *)linear->weight + (size_t)r * n_in * byte;
    const float *x = row->x;
    f32v sum[4] = {{0}}; /* enough independent sums to hide the latency of a product */
    int i = 0;
    for (; i + 32 <= n_in; i += 32) {
        for (int line = 0; line < 32 * byte; line += 64) __builtin_prefetch(w + i * byte + line + AHEAD);
        for (int k = 0; k < 32 / LANES; k++)
            sum[k % 4] += LOAD(f32v, x + i + LANES * k) * load_weights(w + (i + LANES * k) * byte, format);
    }
    for (; i < n_in; i += LANES) sum[0] += LOAD(f32v, x + i) * load_weights(w + i * byte, format);
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

#define FOR_ROWS(format)                                                                       \
    do {                                                                                       \
        int r = first;                                                                         \
        if (is_short(linear))                                                                  \
            for (; r < last; r++) y[r - first] = float_row(linear, row, r, format);            \
        for (; last - r >= 4; r += 4) float_rows(linear, row, r, 4, format, y + r - first);    \
        for (; r < last; r++) float_rows(linear, row, r, 1, format, y + r - first);            \
    } while (0)

#define FOR_BLOCKS(product, group)                                                             \
    do {                                                                                       \
        int r = first;                                                                         \
        for (; last - r >= 2 * BLOCK; r += 2 * BLOCK)                                          \
            product(linear, row, r / BLOCK, 2, group, y + r - first);                          \
        for (; r < last; r += BLOCK) {                                                         \
            float rows[BLOCK];                                                                 \
            product(linear, row, r / BLOCK, 1, group, rows);                                   \
            memcpy(y + r - first, rows, (last - r < BLOCK ? last - r : BLOCK) * sizeof *y);    \
        }                                                                                      \
    } while (0)

/* Rows first..last - 1 of the product; `first` begins a block. */
void linear_rows(const linear_t *linear, const row_t *row, int first, int last, float *y) {
    switch (linear->format) {
    case FP32: FOR_ROWS(FP32); break;
    case BF16: FOR_ROWS(BF16); break;
    case FP16: FOR_ROWS(FP16); break;
    case INT8:
        if (linear->group) FOR_BLOCKS(int8_blocks, 32);
        else FOR_BLOCKS(int8_blocks, 0);
        break;
    default:
        if (linear->group == 32) FOR_BLOCKS(int4_blocks, 32);
        else if (linear->group == 64) FOR_BLOCKS(int4_blocks, 64);
        else FOR_BLOCKS(int4_blocks, 128);
    }
    if (linear->bias)
        for (int r = first; r < last; r++) y[r - first] += linear->bias[r];
}

/* Multiply n_rows rows, x [n_rows, n_in] fp32 to y [n_rows, n_out] fp32. */
void trilemma_linear(const linear_t *linear, const float *x, int n_rows, float *y, int n_threads) {
    const int n_out = linear->n_out;
#pragma omp parallel num_threads(n_threads)
    {
        const int thread = omp_get_thread_num(), n = omp_get_num_threads();
        const int first = share_of(n_out, thread, n), last = share_of(n_out, thread + 1, n);
        ROW_BUFFERS(linear->n_in);
        for (int i = 0; i < n_rows; i++) {
            row_t row = ROW(x + (size_t)i * linear->n_in);
            round_row(linear, &row);
            linear_rows(linear, &row, first, last, y + (size_t)i * n_out + first);
        }
    }
}
