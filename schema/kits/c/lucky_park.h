/* Words that two processes share: loads and stores, park words, ring positions. The native module of lucky_transport has
 * this file too, and its model checker takes each release, acquire and fence of it out once.
 *
 * Publishing is: data, release-store of the counter, full fence, look at the park word, wake if it was 1. Waiting is:
 * park = 1, full fence, look at the counter again, futex. The two fences close the store-load window in which both sides
 * would read the old value and the wake-up would be lost. The word behind a park word says on which CPU the peer published
 * last.
 */
#ifndef LUCKY_PARK_H
#define LUCKY_PARK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire is little-endian, and is read in place"
#endif
#if UINTPTR_MAX != UINT64_MAX
#error "words of 64 bits are shared, and futex takes a 64-bit timespec: build for a 64-bit machine"
#endif

static inline uint64_t lucky_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint32_t lucky_load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void lucky_store64(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
static inline void lucky_store32(uint32_t *p, uint32_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

static inline int64_t lucky_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Between two looks. `yield` of aarch64 takes no time on most cores. */
static inline void lucky_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

/* The CPU of this thread, counted from 1; 0: not known. */
static inline uint32_t lucky_own_cpu(void) { return (uint32_t)sched_getcpu() + 1; }

/* Say behind the peer's park word on which CPU we publish: a hint, and 0 from a side or a thread that says nothing. */
static inline void lucky_tell_cpu(uint32_t *park, uint32_t cpu) {
    if (__atomic_load_n(park + 1, __ATOMIC_RELAXED) != cpu) __atomic_store_n(park + 1, cpu, __ATOMIC_RELAXED);
}

/* The peer of a side with this park word published last on the CPU that we run on, so it does not run while we look. */
static inline int lucky_shares_cpu(const uint32_t *park) {
    uint32_t cpu = __atomic_load_n(park + 1, __ATOMIC_RELAXED);
    return cpu && cpu == lucky_own_cpu();
}

/* After publishing: take the park word back from a peer that is parked; 1 when it was, and has to be woken. */
static inline int lucky_unpark(uint32_t *park) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(park, __ATOMIC_RELAXED) && __atomic_exchange_n(park, 0, __ATOMIC_RELAXED);
}

/* Wake a peer that is parked on `park`: 1 when it was. */
static inline int lucky_wake(uint32_t *park) {
    if (!lucky_unpark(park)) return 0;
    syscall(SYS_futex, park, FUTEX_WAKE, 1, NULL, NULL, 0);
    return 1;
}

/* What a waiter looks at: up to two words, each against the value it must leave, and a word of this process that ends the
 * wait once it is not 0. */
typedef struct {
    const uint64_t *wide;
    uint64_t wide_old;
    const uint32_t *narrow;
    uint32_t narrow_old;
    const volatile uint32_t *stop;
} lucky_watch;

/* Ends a wait, orders nothing: what was published is used behind an acquire load of the same word. */
static inline int lucky_changed(const lucky_watch *w) {
    if (w->wide && __atomic_load_n(w->wide, __ATOMIC_RELAXED) != w->wide_old) return 1;
    if (w->narrow && __atomic_load_n(w->narrow, __ATOMIC_RELAXED) != w->narrow_old) return 1;
    return w->stop && __atomic_load_n(w->stop, __ATOMIC_ACQUIRE);
}

/* Sleep while the park word is 1. */
static inline void lucky_futex_wait(uint32_t *word, int64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT, 1, &t, NULL, 0);
}

/* Sleep on our park word: 0 when nobody woke us, though something may have changed. A peer that publishes and dies before
 * it wakes us is looked after at once then, not after another slice. */
static inline int lucky_park(const lucky_watch *w, uint32_t *word, int64_t ns) {
    int woken = 1;
    __atomic_store_n(word, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!lucky_changed(w)) {
        lucky_futex_wait(word, ns);
        woken = !__atomic_load_n(word, __ATOMIC_RELAXED);
    }
    __atomic_store_n(word, 0, __ATOMIC_RELAXED);
    return woken;
}

/* How far a ring's position `write` is ahead of `read`; more than any ring has where that cannot be. */
static inline uint32_t lucky_ring_distance(uint32_t write, uint32_t read) {
    return (write | read) % 8 ? UINT32_MAX : write - read;
}

#endif
