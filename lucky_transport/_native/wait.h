/* Park words, futexes and the adaptive spin budget: how a side waits for a word that the other side stores.
 *
 * Publishing is: data, release-store of the counter, full fence, look at the park word, wake if it was 1. Waiting is:
 * park = 1, full fence, look at the counter again, futex. The two fences close the store-load window in which both sides
 * would read the old value and the wake-up would be lost. tests/model shows that each release, acquire and fence of this
 * module is needed, or says why it is kept. The word behind a park word says on which CPU the peer published last.
 */
#ifndef LUCKY_WAIT_H
#define LUCKY_WAIT_H

#include "native.h"
#include "truncation.h"

#include <linux/futex.h>
#include <sched.h>
#include <time.h>

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* `start + ns`, or as late as there is. */
static inline int64_t later(int64_t start, int64_t ns) {
    int64_t end;
    return __builtin_add_overflow(start, ns, &end) ? (ns < 0 ? INT64_MIN : INT64_MAX) : end;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static inline uint64_t load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint32_t load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

/* Sleep while the park word is 1. */
void futex_wait(uint32_t *word, int64_t ns);

/* Wake a peer that is parked on `park`: 1 when it was. */
static inline int wake(uint32_t *park) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(park, __ATOMIC_RELAXED) || !__atomic_exchange_n(park, 0, __ATOMIC_RELAXED)) return 0;
    syscall(SYS_futex, park, FUTEX_WAKE, 1, NULL, NULL, 0);
    return 1;
}

/* The CPU of this thread, counted from 1; 0: not known. */
static inline uint32_t own_cpu(void) { return (uint32_t)sched_getcpu() + 1; }

/* Say behind the peer's park word on which CPU we publish: a hint, and 0 from a side or a thread that says nothing. */
static inline void tell_cpu(uint32_t *park, uint32_t cpu) {
    if (__atomic_load_n(park + 1, __ATOMIC_RELAXED) != cpu) __atomic_store_n(park + 1, cpu, __ATOMIC_RELAXED);
}

/* The peer of a side with this park word published last on the CPU that we run on, so it does not run while we look. */
static inline int shares_cpu(const uint32_t *park) {
    uint32_t cpu = __atomic_load_n(park + 1, __ATOMIC_RELAXED);
    return cpu && cpu == own_cpu();
}

/* What a waiter looks at: up to two words, each against the value it must leave, and a word of this process that ends the
 * wait once it is not 0. */
typedef struct {
    const uint64_t *wide;
    uint64_t wide_old;
    const uint32_t *narrow;
    uint32_t narrow_old;
    const uint32_t *stop;
} Watch;

/* Ends a wait, orders nothing: what was published is used behind an acquire load of the same word. */
static inline int changed(const Watch *w) {
    if (w->wide && __atomic_load_n(w->wide, __ATOMIC_RELAXED) != w->wide_old) return 1;
    if (w->narrow && __atomic_load_n(w->narrow, __ATOMIC_RELAXED) != w->narrow_old) return 1;
    return w->stop && load32(w->stop);
}

/* What an adaptive waiter learns from its waits. score: +1 for one that was over within SOON_NS, -1 for a longer one, a new
 * start at each turn. A change of rate is believed at once, an extreme only after some waits that agree. without_yields: so
 * many waits do not yield, since other programs want the core. */
typedef struct {
    int strategy, score, without_yields;
} SpinBudget;

static inline void learn(SpinBudget *budget, int soon) {
    int score = budget->score;
    if (soon) budget->score = score < 0 ? 0 : score < SCORE_SOON ? score + 1 : SCORE_SOON;
    else budget->score = score > 0 ? 0 : score > SCORE_LATE ? score - 1 : SCORE_LATE;
}

/* How long its next wait looks before it parks. */
PyObject *spin_budget_ns(const SpinBudget *budget);

typedef struct {
    SpinBudget budget;
    int wakes;        /* the peer honours our park word */
    uint32_t *park;
    int lock_fd;      /* a lock file in which the peer holds a byte while it lives; -1: the caller looks whether it does */
    int64_t lock_byte;
    int is_called;    /* the peer wakes us for more than the words that we watch, and the caller looks for what */
} Waiter;

/* The first looks, with the GIL held. */
static inline int changed_at_once(const Watch *w, const Waiter *me) {
    if (changed(w)) return 1;
    if (me->budget.strategy != WAIT_BLOCK && me->budget.strategy != WAIT_OVERSUBSCRIBED && !shares_cpu(me->park))
        for (int i = 0; i < GIL_LOOKS; i++) {
            relax();
            if (changed(w)) return 1;
        }
    return 0;
}

/* A whole wait, entered with the GIL: 1, TIMED_OUT, or INTERRUPTED (a signal handler's exception). It is cut into slices;
 * between them Python's signals are looked at, and whether the peer holds its lock: once it does not, the wait times out. A
 * waiter that is called times out at once when it is woken for nothing. What became of the peer is for the caller to find out;
 * there may be something then that nobody woke us for, and it is found by the next wait. `skip_spin` parks at once: nothing
 * can come soon, from a peer that is only being woken or was idle for long. A waiter whose last waits were long does so by
 * itself. */
int wait_change(const Watch *w, Waiter *me, int64_t timeout_ns, int skip_spin);

#endif
