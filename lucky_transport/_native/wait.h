/* Whole waits and the adaptive spin budget: how a side waits for a word that the other side stores. lucky_park.h has the
 * words. tests/model shows that each release, acquire and fence of this module is needed, or says why it is kept.
 */
#ifndef LUCKY_WAIT_H
#define LUCKY_WAIT_H

#include "native.h"
#include "truncation.h"

/* `start + ns`, or as late as there is. */
static inline int64_t later(int64_t start, int64_t ns) {
    int64_t end;
    return __builtin_add_overflow(start, ns, &end) ? (ns < 0 ? INT64_MIN : INT64_MAX) : end;
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
static inline int changed_at_once(const lucky_watch *w, const Waiter *me) {
    if (lucky_changed(w)) return 1;
    if (me->budget.strategy != WAIT_BLOCK && me->budget.strategy != WAIT_OVERSUBSCRIBED && !lucky_shares_cpu(me->park))
        for (int i = 0; i < GIL_LOOKS; i++) {
            lucky_pause();
            if (lucky_changed(w)) return 1;
        }
    return 0;
}

/* A whole wait, entered with the GIL: 1, TIMED_OUT, or INTERRUPTED (a signal handler's exception). It is cut into slices;
 * between them Python's signals are looked at, and whether the peer holds its lock: once it does not, the wait times out. A
 * waiter that is called times out at once when it is woken for nothing. What became of the peer is for the caller to find out;
 * there may be something then that nobody woke us for, and it is found by the next wait. `skip_spin` parks at once: nothing
 * can come soon, from a peer that is only being woken or was idle for long. A waiter whose last waits were long does so by
 * itself. */
int wait_change(const lucky_watch *w, Waiter *me, int64_t timeout_ns, int skip_spin);

#endif
