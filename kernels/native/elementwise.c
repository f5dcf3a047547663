/* One pass over memory where torch needs several: dual-loop compensation, error feedback, thresholding, relayout. */

#include "native.h"

#define ROUNDS_TO_INTEGER 12582912.0f /* added and taken away again; halves go to the even neighbour, |x| < 2^22 */
#define CHUNK 4096

INLINE float rounded(float x) { return x + ROUNDS_TO_INTEGER - ROUNDS_TO_INTEGER; }

/* out = x - gain (mean - target) - (1 - gain) (x - step round(x / step)), with offset = gain (mean - target) given.
   Returns the sum of out, so that the next step knows its mean without another pass. out may be x. */
double trilemma_compensate(const float *x, float *out, int64_t n, float step, float gain, float offset, int n_threads) {
    const float inverse = 1 / step;
    double total = 0;
#pragma omp parallel for num_threads(n_threads) reduction(+ : total) schedule(static)
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t last = first + CHUNK < n ? first + CHUNK : n;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = first; i < last; i++) {
            const float grid = step * rounded(x[i] * inverse), y = grid + gain * (x[i] - grid) - offset;
            out[i] = y;
            sum += y;
        }
        total += sum;
    }
    return total;
}

/* Round x to the grid with the error of the step before added, and keep the new error. out may be x. */
void trilemma_feed_back(const float *x, float *error, float *out, int64_t n, float step, int n_threads) {
    const float inverse = 1 / step;
#pragma omp parallel for simd num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float wanted = x[i] + error[i], y = step * rounded(wanted * inverse);
        out[i] = y;
        error[i] = wanted - y;
    }
}

/* Copy [n_rows, n_tokens, n_blocks, block] to [n_rows, n_blocks, n_tokens, block], or back; block in bytes. */
void trilemma_relayout(const uint8_t *from, uint8_t *to, int64_t n_rows, int64_t n_tokens, int64_t n_blocks, int64_t block,
                       int back, int n_threads) {
#pragma omp parallel for collapse(2) num_threads(n_threads) schedule(static)
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t first = 0; first < n_tokens; first += 64) {
            const int64_t last = first + 64 < n_tokens ? first + 64 : n_tokens;
            for (int64_t b = 0; b < n_blocks; b++)
                for (int64_t t = first; t < last; t++) {
                    const int64_t plain = ((row * n_tokens + t) * n_blocks + b) * block;
                    const int64_t blocked = ((row * n_blocks + b) * n_tokens + t) * block;
                    memcpy(to + (back ? plain : blocked), from + (back ? blocked : plain), block);
                }
        }
}
