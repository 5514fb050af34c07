/* The writer's side of an arena: its queue of slabs, the memory that all arenas of this process share, and a push; see
 * arena.h. All of it is used with the GIL held, but for what `slab_write` and `arena_trim` do. */
#include "faults.h"
#include "memory.h"

#include <stdlib.h>

#define DECAY 32 /* each time `recent` loses one part in so many: half of it after 22 slabs */

/* Of the writers of this process that have an arena. */
static Ring *arena_writers;
static uint64_t arenas_backed;

int arena_init(Ring *r, int writes, unsigned long long offset, unsigned long long size) {
    Arena *a = &r->arena;
    a->longest = UINT64_MAX;
    if (!size) return 0;
    if (ring_largest(r) < REFERENCE_BYTES || size > ARENA_LARGEST) {
        PyErr_Format(PyExc_ValueError, "an arena of %llu bytes beside a ring of %u, expected %llu at most, and 128 at least",
                     size, r->size, (unsigned long long)ARENA_LARGEST);
        return -1;
    }
    if (!(a->data = at(&r->view, offset, size, SLAB_ALIGNMENT))) return -1;
    a->size = size;
    if (!writes) return 0;
    uint64_t most = size / ring_largest(r) + 1, references = r->size / (REFERENCE_BYTES + 4);
    a->capacity = (uint32_t)(most < references ? most : references);
    if (!(a->slabs = calloc(a->capacity, sizeof *a->slabs))) {
        PyErr_NoMemory();
        return -1;
    }
    a->next = arena_writers;
    arena_writers = r;
    return 0;
}

void arena_dealloc(Ring *r) {
    if (!r->arena.slabs) return;
    Ring **link = &arena_writers;
    while (*link != r) link = &(*link)->arena.next;
    *link = r->arena.next;
    arenas_backed -= r->arena.backed;
    free(r->arena.slabs);
}

uint64_t arena_largest(const Ring *r) {
    const Arena *a = &r->arena;
    uint64_t most = !a->refused_until || lucky_now_ns() > a->refused_until ? a->size : a->backed;
    return most > ring_largest(r) ? most : ring_largest(r);
}

/* ---- the queue of slabs ------------------------------------------------------------------------------------------ */

static inline Slab *slab_at(const Arena *a, uint32_t number) { return &a->slabs[(a->first + number) % a->capacity]; }

/* Where a slab of `length` bytes begins once the first `back` of those that are out are back: 0 where it has no place.
 *
 *   the others do not go around the arena's end      they do
 *
 *   |    B    | oldest | .. | newest |   A   |       | .. | newest |    C    | oldest | .. |    |
 *   0                                      size      0                                        size
 *
 * A place begins behind the newest slab (A, C), at the next multiple of SLAB_ALIGNMENT, or with the arena (B). B is taken
 * before A where A would need memory that the arena has not got yet.
 *
 * An arena of 1024 bytes, all with memory; out are [0, 400) and [448, 848). 100 bytes go to 896 (A). 200 have no place:
 * from 896 on there are 128, and the oldest begins at 0. Once that is back they go to 0 (B), for the oldest is at 448 then.
 * With them there the slabs go around, and 300 have no place before the one at 448 is back: from 256 on there are 192 (C).
 */
static int slab_place(const Arena *a, uint64_t length, uint32_t back, uint64_t *begin) {
    *begin = 0;
    if (back == a->count) return length <= a->size;
    const Slab *oldest = slab_at(a, back), *newest = slab_at(a, a->count - 1);
    uint64_t behind = aligned(newest->end, SLAB_ALIGNMENT);
    if (newest->begin < oldest->begin) { /* C */
        *begin = behind;
        return behind + length <= oldest->begin;
    }
    if (behind + length > a->backed && length <= oldest->begin) return 1; /* B */
    *begin = behind; /* A */
    return behind + length <= a->size;
}

/* Forget the slabs that are back; the reader has copied them. Nothing is back at a position that cannot be. */
static void slabs_collect(Ring *r) {
    Arena *a = &r->arena;
    uint32_t used = lucky_ring_distance(r->position, lucky_load32(r->read));
    while (a->count && r->position - slab_at(a, 0)->after >= used) {
        a->first = (a->first + 1) % a->capacity;
        a->count--;
    }
}

/* A slab is back once the reader stands behind its reference: all of the ring is free then but what was written after that.
 * In a ring of 4096 bytes whose writer stands at 320, the slab whose reference ends at 96 is back with 4096 - (320 - 96)
 * bytes free. */
int64_t arena_need(const Ring *r, uint64_t length) {
    const Arena *a = &r->arena;
    uint64_t begin;
    uint32_t back = 0;
    while (back < a->count && !slab_place(a, length, back, &begin)) back++;
    return back ? (int64_t)r->size - (int64_t)(r->position - slab_at(a, back - 1)->after) : 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Give back the memory behind the first `keep` bytes, more than a step of it without the GIL. No slab may lie there. */
static void arena_trim(Ring *r, uint64_t keep) {
    Arena *a = &r->arena;
    keep = aligned(keep, ARENA_STEP);
    if (keep >= a->backed) return;
    pid_t before = r->busy; /* of our own arena RING_BUSY, of another one RING_IDLE */
    PyThreadState *thread = a->backed - keep > ARENA_STEP ? leave_gil(r) : NULL;
    uint64_t given = depopulate(a->data + keep, a->data + a->backed) ? a->backed - keep : 0;
    if (thread) regain_gil(r, thread);
    r->busy = before;
    arenas_backed -= given;
    a->backed -= given;
}

/* All slabs of a writer are back, and none is being written. */
static int is_at_rest(Ring *r) {
    if (r->busy || r->why) return 0;
    slabs_collect(r);
    return !r->arena.count;
}

void arena_note_short(Ring *r) {
    Arena *a = &r->arena;
    if (lucky_now_ns() < a->rests_from || !is_at_rest(r)) return;
    arena_trim(r, a->backed > ARENA_STEP ? a->backed - ARENA_STEP : 0);
    a->recent = 0;
}

/* A slab will end at `end`. `recent` is a decaying maximum of that: it loses a part with each slab that finds the arena
 * empty (is_first). Then memory goes, too, where the arena has more than twice as much. */
static void arena_note_slab(Ring *r, uint64_t end, int is_first) {
    Arena *a = &r->arena;
    if (is_first) a->recent -= a->recent / DECAY;
    if (a->recent < end) a->recent = end;
    if (is_first && a->backed / 2 > a->recent) arena_trim(r, a->recent);
}

/* The file system has room for so much more, and for what other programs take of it; see mapping.py. */
static int has_room(const Ring *r, uint64_t more) {
    PyObject *left = PyObject_CallMethod(r->view.obj, "has_room", "K", (unsigned long long)more);
    int room = left != Py_False; /* memory that is no such mapping has no bound of its own */
    Py_XDECREF(left);
    PyErr_Clear();
    return room;
}

/* Count memory for the first `bytes` as this arena's, by the step, taking it from others that are at rest where this process
 * has no more. Return up to where it has some then; 0 where there is none. */
static uint64_t arena_claim(Ring *r, uint64_t bytes) {
    uint64_t size = r->arena.size, backed = r->arena.backed, step = aligned(bytes, ARENA_STEP);
    uint64_t end = step > size ? size : step < backed ? backed : step, more = end - backed;
    if (more && !has_room(r, more)) return 0;
    if (arenas_backed + more > ARENAS_LARGEST)
        for (PyObject *other = Py_XNewRef((PyObject *)arena_writers), *next; other; other = next) {
            int may_give = arenas_backed + more > ARENAS_LARGEST && other != (PyObject *)r && is_at_rest((Ring *)other);
            if (may_give) arena_trim((Ring *)other, 0);
            next = Py_XNewRef((PyObject *)((Ring *)other)->arena.next); /* held: others run in `arena_trim` */
            Py_DECREF(other);
        }
    if (arenas_backed + more > ARENAS_LARGEST) return 0;
    arenas_backed += more;
    return end;
}

/* ---- a push ------------------------------------------------------------------------------------------------------ */

/* Write the pieces to `begin`, with memory up to `end`, which was claimed: 0 where the system has none, or this end was
 * shut. */
static int slab_write(Ring *r, uint64_t begin, uint64_t end, const Piece *pieces, int count) {
    Arena *a = &r->arena;
    int is_open = !r->why;
    PyThreadState *thread = leave_gil(r);
    int is_backed = is_open && populate(a->data + a->backed, a->data + end);
    for (uint8_t *to = a->data + begin; is_backed && count; to += pieces->size, pieces++, count--)
        memcpy(to, pieces->start, pieces->size);
    regain_gil(r, thread);
    if (is_backed) a->backed = end;
    else arenas_backed -= end - a->backed;
    return is_backed;
}

/* Write the slab's reference, and have the reader see it. */
static void slab_publish(Ring *r, Slab slab, uint8_t *reference, uint64_t call, uint64_t message) {
    Arena *a = &r->arena;
    uint32_t said = message > UINT32_MAX ? UINT32_MAX : (uint32_t)message;
    *(Reference *)(reference - 4) = (Reference){RING_REFERENCE, said, slab.begin, slab.end - slab.begin, call};
    a->rests_from = lucky_now_ns() + ARENA_RESTS_NS;
    a->refused_until = 0;
    *slab_at(a, a->count++) = slab;
    ring_publish(r, slab.after - r->position);
}

/* A push:
 *
 *   1. reserve   ring_reserve     there is room in the ring for the reference; else False, or an error
 *   2. place     slab_place       there is a place between the slabs that are out; else False, and the caller waits
 *   3. claim     arena_claim      this process may take the memory that the place needs
 *   4. write     slab_write       the system gives that memory, and the pieces are copied into it, without the GIL
 *   5. publish   slab_publish     the reader sees the reference
 *
 * The end is `busy` in 3 and 4, in which other threads run: nothing is pushed through it, and it may be shut. Where 3 or 4
 * finds no memory, the answer is False and `arena_largest` says less for a while, so that the caller cuts the record. */
PyObject *arena_push(Ring *r, const Piece *pieces, int count, uint64_t call, uint64_t message) {
    Arena *a = &r->arena;
    uint64_t length = 0, begin;
    for (int i = 0; i < count; i++) length += pieces[i].size;
    if (length > a->size) return refuse(REFUSE_OUTGOING, length, r->size, a->size, 0);
    if (r->busy || length > arena_largest(r)) Py_RETURN_FALSE;
    uint32_t need;
    PyObject *answer;
    uint8_t *reference = ring_reserve(r, REFERENCE_BYTES, &need, &answer);
    if (!reference) return answer;
    slabs_collect(r);
    if (a->count == a->capacity || !slab_place(a, length, 0, &begin)) Py_RETURN_FALSE;
    Slab slab = {begin, begin + length, r->position + need};
    r->busy = RING_BUSY;
    arena_note_slab(r, slab.end, !a->count);
    uint64_t end = arena_claim(r, slab.end);
    LUCKY_FAULT("slab.reserve");
    int is_written = end && slab_write(r, begin, end, pieces, count);
    r->busy = RING_IDLE;
    if (!open_ring_of((PyObject *)r)) return NULL; /* it was shut meanwhile */
    if (!is_written) {
        a->refused_until = lucky_now_ns() + ARENA_REFUSED_NS;
        Py_RETURN_FALSE;
    }
    LUCKY_FAULT("slab.written");
    slab_publish(r, slab, reference, call, message);
    Py_RETURN_TRUE;
}
