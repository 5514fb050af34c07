#include "batch_scan.h"

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))

/* Registers of 32 bytes pay from here on. */
static int is_wide(size_t bytes) { return bytes >= 1024 && __builtin_cpu_supports("avx2"); }
#endif

/* In one pass, for it costs as much as the copy of the actions does. */
#define SCAN(NAME, TARGET, TYPE, BITS, MASK, LOW, HIGH)                                                              \
    TARGET static int NAME(const void *data, size_t n, const ActionKind *k, uint64_t *outside) {                     \
        typedef BITS Bits __attribute__((may_alias));                                                                \
        const Bits *bits = data;                                                                                     \
        const TYPE *x = data, low = (TYPE)k->LOW, high = (TYPE)k->HIGH;                                              \
        BITS bad = 0, count = 0;                                                                                     \
        if (k->bounded)                                                                                              \
            for (size_t i = 0; i < n; i++) {                                                                         \
                bad |= (BITS)((bits[i] & MASK) == MASK);                                                             \
                count += (BITS)((x[i] < low) | (x[i] > high));                                                       \
            }                                                                                                        \
        else                                                                                                         \
            for (size_t i = 0; i < n; i++) bad |= (BITS)((bits[i] & MASK) == MASK);                                  \
        if (MASK && bad) return 0;                                                                                   \
        *outside += count;                                                                                           \
        return 1;                                                                                                    \
    }
#define SCANS(WIDTH, TARGET)                                                                                         \
    SCAN(scan_f_##WIDTH, TARGET, float, uint32_t, 0x7f800000u, low, high)                                            \
    SCAN(scan_d_##WIDTH, TARGET, double, uint64_t, 0x7ff0000000000000ull, low, high)                                 \
    SCAN(scan_q_##WIDTH, TARGET, int64_t, uint64_t, 0ull, low_q, high_q)                                             \
    static int scan_##WIDTH(const void *data, size_t bytes, const ActionKind *k, uint64_t *outside) {                \
        switch (k->kind) {                                                                                           \
        case 'f': return scan_f_##WIDTH(data, bytes / 4, k, outside);                                                \
        case 'd': return scan_d_##WIDTH(data, bytes / 8, k, outside);                                                \
        case 'q': return scan_q_##WIDTH(data, bytes / 8, k, outside);                                                \
        default: return 1;                                                                                           \
        }                                                                                                            \
    }
SCANS(16, )
#if defined(__x86_64__)
SCANS(32, WIDE)
#endif

int scan_actions(const void *data, size_t bytes, const ActionKind *k, uint64_t *outside) {
#if defined(__x86_64__)
    if (is_wide(bytes)) return scan_32(data, bytes, k, outside);
#endif
    return scan_16(data, bytes, k, outside);
}

/* Flags of thousands of envs are looked at in each exchange: four lanes at once, for one sum waits for its own last add.
 * `Lane` may lie anywhere and alias anything, as a byte may. */
#define ANY_NONZERO(NAME, TARGET, BYTES)                                                                       \
    TARGET static int NAME(const uint8_t *p, size_t n) {                                                       \
        typedef uint64_t Lane __attribute__((vector_size(BYTES), aligned(1), may_alias));                      \
        Lane a = {0}, b = {0}, c = {0}, d = {0};                                                               \
        size_t i = 0;                                                                                          \
        for (; i + 4 * BYTES <= n; i += 4 * BYTES) {                                                           \
            const Lane *lane = (const Lane *)(p + i);                                                          \
            a |= lane[0];                                                                                      \
            b |= lane[1];                                                                                      \
            c |= lane[2];                                                                                      \
            d |= lane[3];                                                                                      \
        }                                                                                                      \
        a |= b | c | d;                                                                                        \
        uint64_t rest = 0;                                                                                     \
        for (int j = 0; j < BYTES / 8; j++) rest |= a[j];                                                      \
        for (; i < n; i++) rest |= p[i];                                                                       \
        return rest != 0;                                                                                      \
    }
ANY_NONZERO(any_nonzero_16, , 16)
#if defined(__x86_64__)
ANY_NONZERO(any_nonzero_32, WIDE, 32)
#endif

int any_nonzero(const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (is_wide(n)) return any_nonzero_32(p, n);
#endif
    return any_nonzero_16(p, n);
}
