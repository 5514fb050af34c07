/* Words that two processes share, and how a side waits for one of them: look, yield, then sleep on its park word.
 *
 * Publishing is: data, release-store of the counter, full fence, look at the park word, wake if it is 1. Waiting is:
 * park = 1, full fence, look at the counter again, futex. The two fences close the window in which both sides would see
 * the old value and the wake-up would be lost.
 */
#ifndef LUCKY_WAIT_H
#define LUCKY_WAIT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lucky_schema.h"
#include "lucky_shm.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire is little-endian, and this kit reads it in place"
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

static inline void lucky_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Wake a peer that sleeps on `park`. What was published before is visible to it. */
static inline void lucky_wake(uint32_t *park) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(park, __ATOMIC_RELAXED) || !__atomic_exchange_n(park, 0, __ATOMIC_ACQ_REL)) return;
    syscall(SYS_futex, park, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* What a waiter looks at: two counters against the values they must leave, and a flag that ends the wait. */
typedef struct {
    const uint64_t *wide;
    const uint32_t *narrow;
    const volatile sig_atomic_t *stop;
    uint64_t wide_old;
    uint32_t narrow_old;
} lucky_watch;

/* park: this side's park word. peer_wakes: the peer honours it; else it is polled. score: what its waits taught it.
 * without_yields: so many waits do not yield, since other programs want the core. */
typedef struct {
    uint32_t *park;
    int peer_wakes, score, was_idle, without_yields;
} lucky_waiter;

/* The CPU of this thread, counted from 1; 0: not known. */
static inline uint32_t lucky_own_cpu(void) { return (uint32_t)sched_getcpu() + 1; }

/* Say behind the peer's park word on which CPU we publish: a hint, and 0 from a side that says nothing. */
static inline void lucky_tell_cpu(uint32_t *park) {
    uint32_t cpu = lucky_own_cpu();
    if (__atomic_load_n(park + 1, __ATOMIC_RELAXED) != cpu) __atomic_store_n(park + 1, cpu, __ATOMIC_RELAXED);
}

/* The peer published last on the CPU that we run on, so it does not run while we look. */
static inline int lucky_shares_cpu(const lucky_waiter *me) {
    uint32_t cpu = __atomic_load_n(me->park + 1, __ATOMIC_RELAXED);
    return cpu && cpu == lucky_own_cpu();
}

static inline int lucky_changed(const lucky_watch *w) {
    return lucky_load64(w->wide) != w->wide_old || lucky_load32(w->narrow) != w->narrow_old || *w->stop;
}

/* A change of rate is believed at once, an extreme only after some waits that agree. */
static inline void lucky_learn(lucky_waiter *me, int soon) {
    int score = me->score;
    if (soon) me->score = score < 0 ? 0 : score < LUCKY_SCORE_SOON ? score + 1 : score;
    else me->score = score > 0 ? 0 : score > LUCKY_SCORE_LATE ? score - 1 : score;
}

static inline int lucky_spin(const lucky_watch *w, lucky_waiter *me, int64_t start, int64_t longest) {
    int yields = !me->without_yields;
    if (!yields) me->without_yields--;
    for (int64_t waited = 0; waited < longest; waited = lucky_now_ns() - start) {
        for (int i = 0; i < LUCKY_PAUSES; i++) {
            if (lucky_changed(w)) return 1;
            lucky_pause();
        }
        if (waited >= LUCKY_PAUSE_NS) { /* a peer that does not say its CPU may share ours */
            if (!yields) break;
            int64_t before = lucky_now_ns();
            sched_yield();
            if (lucky_now_ns() - before > LUCKY_LOST_CORE_NS) me->without_yields = LUCKY_LOST_CORE_WAITS;
        }
    }
    return lucky_changed(w);
}

/* Sleep until the peer wakes us, a signal comes, or for so long: 0 when nobody woke us, though something may have changed.
 * A peer that publishes and dies before it wakes us is looked after at once then, not after another slice. */
static inline int lucky_park(const lucky_watch *w, uint32_t *park, int64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    int woken = 1;
    __atomic_store_n(park, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!lucky_changed(w)) {
        syscall(SYS_futex, park, FUTEX_WAIT, 1, &t, NULL, 0);
        woken = !__atomic_load_n(park, __ATOMIC_RELAXED);
    }
    __atomic_store_n(park, 0, __ATOMIC_RELAXED);
    return woken;
}

/* Wait at most so long: 1 when something changed. */
static inline int lucky_wait(const lucky_watch *w, lucky_waiter *me, int64_t timeout_ns) {
    if (lucky_changed(w)) {
        lucky_learn(me, 1);
        me->was_idle = 0;
        return 1;
    }
    if (timeout_ns <= 0) return 0;
    int64_t start = lucky_now_ns(), longest = me->score == LUCKY_SCORE_SOON ? LUCKY_SOON_NS : LUCKY_YIELD_NS;
    int sleeps_at_once = me->was_idle || me->score == LUCKY_SCORE_LATE || lucky_shares_cpu(me);
    int changed = !sleeps_at_once && lucky_spin(w, me, start, longest < timeout_ns ? longest : timeout_ns);
    int64_t waited = lucky_now_ns() - start;
    if (!changed && waited < timeout_ns) {
        int woken = !me->peer_wakes || lucky_park(w, me->park, timeout_ns - waited);
        for (; !me->peer_wakes && !lucky_changed(w) && waited < timeout_ns; waited = lucky_now_ns() - start) {
            struct timespec t = {0, LUCKY_POLL_NS};
            nanosleep(&t, NULL);
        }
        changed = woken && lucky_changed(w);
        waited = lucky_now_ns() - start;
    }
    if (changed || waited > LUCKY_SOON_NS) lucky_learn(me, waited <= LUCKY_SOON_NS);
    me->was_idle = !changed; /* until something happens it sleeps at once */
    return changed;
}

#endif
