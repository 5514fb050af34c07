/* How a side waits for a word that its peer stores: look, yield, then sleep on its park word, all of lucky_park.h. */
#ifndef LUCKY_WAIT_H
#define LUCKY_WAIT_H

#include "lucky_park.h"

#include <errno.h>
#include <signal.h>

#include "lucky_schema.h"
#include "lucky_shm.h"

/* park: this side's park word. peer_wakes: the peer honours it; else it is polled. score: what its waits taught it.
 * without_yields: so many waits do not yield, since other programs want the core. */
typedef struct {
    uint32_t *park;
    int peer_wakes, score, was_idle, without_yields;
} lucky_waiter;

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

/* Wait at most so long: 1 when something changed. */
static inline int lucky_wait(const lucky_watch *w, lucky_waiter *me, int64_t timeout_ns) {
    if (lucky_changed(w)) {
        lucky_learn(me, 1);
        me->was_idle = 0;
        return 1;
    }
    if (timeout_ns <= 0) return 0;
    int64_t start = lucky_now_ns(), longest = me->score == LUCKY_SCORE_SOON ? LUCKY_SOON_NS : LUCKY_YIELD_NS;
    int sleeps_at_once = me->was_idle || me->score == LUCKY_SCORE_LATE || lucky_shares_cpu(me->park);
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
