/* How long a side looks, yields, sleeps and parks, each with its reason. Times are nanoseconds.
 *
 *   phase     until                            what the waiting thread does
 *   look      GIL_LOOKS looks                  looks with the GIL held
 *   pause     PAUSE_NS                         looks and pauses without the GIL
 *   yield     YIELD_NS; SOON_NS when learnt    looks and gives the core away in between
 *   park      the timeout, in slices           sleeps on its park word; polls a peer that never wakes it
 *
 *   strategy              look   pause   yield              park
 *   WAIT_SPIN             yes    yes     to the slice end   never
 *   WAIT_ADAPTIVE         yes    yes     yes                yes; at once after two long waits
 *   WAIT_BLOCK            no     no      no                 at once
 *   WAIT_OVERSUBSCRIBED   no     no      yes                yes
 */
#ifndef LUCKY_TIMING_H
#define LUCKY_TIMING_H

/* 1 to 3 us: a fast step pays neither for releasing the GIL nor for reading a clock. */
#define GIL_LOOKS 64
/* The peer may share our core, so pausing is short. */
#define PAUSE_NS 10000
/* Looks between two readings of the clock: yields alone slow the other thread of a hyperthreaded core. */
#define PAUSES 16
/* Being woken costs either side 100 us and more, so yielding for about as long is no loss; longer only delays the park. */
#define YIELD_NS 150000
/* Where the last waits were over within this time, being woken takes a good part of it: looking on is cheaper. */
#define SOON_NS 800000
/* Waits that have to agree before a waiter believes an extreme: four that were over soon, two that were not. */
#define SCORE_SOON 4
#define SCORE_LATE (-2)

/* A parked wait polls the peer's pidfd this often: its death is seen within 50 ms. */
#define SLICE_NS 50000000
/* A spinning wait polls it, and Python's signals, this often. */
#define SPIN_SLICE_NS 10000000
/* A peer that never wakes us is polled this often: at most 1 ms apart, at little CPU. */
#define POLL_NS 500000

/* A reader that does not know the writer's park word is polled this often by a writer that waits for free space. */
#define FREED_POLL_NS 1000000
/* Such a writer polls the peer's pidfd and Python's signals this often: it holds up a thread that has more to do. */
#define FREED_SLICE_NS 20000000

#endif
