/* Versioned records in memory that several threads or processes share (a sequence lock): one writer, any readers.

   The version is odd while the writer is at work. A reader copies, and believes the copy when the version was even and is
   still the same; the bytes go through relaxed atomics, so that reading what is being written is no undefined behaviour. */

#include "native.h"

#define RELAXED __ATOMIC_RELAXED

static void copy_words(uint64_t *to, const uint64_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) __atomic_store_n(to + i, __atomic_load_n(from + i, RELAXED), RELAXED);
}

/* Write n words at an offset of the record behind the version; returns the new version. Only one thread may write. */
uint64_t trilemma_shared_write(uint64_t *version, uint64_t *record, const uint64_t *words, int64_t n) {
    const uint64_t before = __atomic_load_n(version, RELAXED);
    __atomic_store_n(version, before + 1, RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    copy_words(record, words, n);
    __atomic_store_n(version, before + 2, __ATOMIC_RELEASE);
    return before + 2;
}

/* Copy n words of the record; returns their version, or 0 when `attempts` copies were all disturbed. */
uint64_t trilemma_shared_read(const uint64_t *version, const uint64_t *record, uint64_t *words, int64_t n, int64_t attempts) {
    for (; attempts > 0; attempts--) {
        const uint64_t before = __atomic_load_n(version, __ATOMIC_ACQUIRE);
        if (before & 1) continue;
        copy_words(words, record, n);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(version, RELAXED) == before) return before;
    }
    return 0;
}

/* Read `count` times, each copy behind the one before, with its version; returns how many succeeded. */
int64_t trilemma_shared_reads(const uint64_t *version, const uint64_t *record, uint64_t *words, int64_t n, uint64_t *versions,
                              int64_t count, int64_t attempts) {
    for (int64_t i = 0; i < count; i++) {
        versions[i] = trilemma_shared_read(version, record, words + i * n, n, attempts);
        if (!versions[i]) return i;
    }
    return count;
}
