/* Pages for shared memory, malloc's memory for long messages, and copies of them without the GIL.
 *
 * A thread that uses an end of a ring while other threads can run marks it as `busy`, and they keep off:
 *
 *   busy        the thread that uses the end                           set by
 *   RING_IDLE   there is none                                          copy_out, arena_push, arena_trim, when done
 *   RING_BUSY   has the GIL or waits for it; it is not in the memory   arena_push, before it claims memory; regain_gil
 *   getpid()    is in the memory, without the GIL                      leave_gil
 *
 * To a push, a pop and a trim, RING_BUSY and a process's number mean the same: not now. `ring_shut` waits while it is the
 * number of its own process; a forked child inherits its parent's, whose thread it does not have.
 */
#ifndef LUCKY_MEMORY_H
#define LUCKY_MEMORY_H

#include "ring.h"

#define RING_IDLE 0
#define RING_BUSY (-1)

static inline uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* Go into the memory of this end without the GIL, and come back: no field but `busy` changes in between. */
static inline PyThreadState *leave_gil(Ring *r) {
    r->busy = getpid();
    return PyEval_SaveThread();
}

static inline void regain_gil(Ring *r, PyThreadState *thread) {
    __atomic_store_n(&r->busy, RING_BUSY, __ATOMIC_RELEASE);
    PyEval_RestoreThread(thread);
}

/* Have pages of their own behind [from, end), and never SIGBUS in their place: 0 where there are none. An older kernel gives
 * them one by one, at their first touch. */
int populate(uint8_t *from, uint8_t *end);

/* Give back the whole pages [from, end), which read as zeros from then on: 0 where that cannot be done. */
int depopulate(uint8_t *from, uint8_t *end);

/* Messages of this length come again: have malloc keep memory for them, where it would give each block back to the system
 * and take it anew, page by page, which costs several times the copy. It does so by itself once it has seen such a block
 * freed, up to 32 MiB; what the program or its user set (mallopt, MALLOC_..._) counts for more. */
void tune_malloc(uint64_t length);

/* A copy of bytes that the peer wrote: without the GIL where that pays. */
PyObject *copy_out(Ring *r, const uint8_t *from, uint64_t size);

#endif
