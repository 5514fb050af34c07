/* The writer's side of an arena, and the memory of all arenas of this process; see arena.h. */
#include "faults.h"
#include "ring.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_REMOVE
#define MADV_REMOVE 9
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SHORTEST_KEPT (16u << 10)
#define MALLOC_KEEPS (128u << 10) /* glibc, until a longer block was freed */
#define GLIBC_KEEPS ((32u << 20) - (64u << 10)) /* it adapts to no longer block by itself */
#define LONGEST_KEPT (64u << 20)
#define RECENT_SLABS 32 /* some of those that count as the last ones were out together, others alone */

/* Of the writers of this process that have an arena. All that is here is used with the GIL held. */
static Ring *arena_writers;
static uint64_t arenas_backed;

static inline uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* Go into the memory of this end without the GIL, and come back: nothing but `copying` is touched in between. */
static PyThreadState *leave_gil(Ring *r) {
    r->copying = getpid();
    return PyEval_SaveThread();
}

static void regain_gil(Ring *r, PyThreadState *thread) {
    __atomic_store_n(&r->copying, RING_BUSY, __ATOMIC_RELEASE);
    PyEval_RestoreThread(thread);
}

static inline Slab *slab_at(const Arena *a, uint32_t number) { return &a->slabs[(a->first + number) % a->capacity]; }

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
    for (Ring **link = &arena_writers; *link; link = &(*link)->arena.next)
        if (*link == r) {
            *link = r->arena.next;
            break;
        }
    arenas_backed -= r->arena.backed;
    free(r->arena.slabs);
}

uint64_t arena_largest(const Ring *r) {
    const Arena *a = &r->arena;
    uint64_t most = !a->refused_until || lucky_now_ns() > a->refused_until ? a->size : a->backed;
    return most > ring_largest(r) ? most : ring_largest(r);
}

/* Where a slab of `length` bytes begins once the first `back` of those that are out are back: 0 where it has no place.
 * What has memory already is preferred. */
static int slab_place(const Arena *a, uint64_t length, uint32_t back, uint64_t *begin) {
    *begin = 0;
    if (back == a->count) return length <= a->size;
    const Slab *oldest = slab_at(a, back), *newest = slab_at(a, a->count - 1);
    uint64_t behind = aligned(newest->end, SLAB_ALIGNMENT);
    if (newest->begin < oldest->begin) { /* they go around the arena's end */
        *begin = behind;
        return behind + length <= oldest->begin;
    }
    if (behind + length > a->backed && length <= oldest->begin) return 1;
    *begin = behind;
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

int64_t arena_need(const Ring *r, uint64_t length) {
    const Arena *a = &r->arena;
    uint64_t begin;
    uint32_t back = 0;
    while (back < a->count && !slab_place(a, length, back, &begin)) back++;
    return back ? (int64_t)r->size - (int64_t)(r->position - slab_at(a, back - 1)->after) : 0;
}

/* Give back the memory behind the first `keep` bytes, more than a step of it without the GIL. No slab may lie there. */
static void arena_trim(Ring *r, uint64_t keep) {
    Arena *a = &r->arena;
    keep = aligned(keep, ARENA_STEP);
    if (keep >= a->backed) return;
    pid_t before = r->copying;
    PyThreadState *thread = a->backed - keep > ARENA_STEP ? leave_gil(r) : NULL;
    int failed = madvise(a->data + keep, a->backed - keep, MADV_REMOVE);
    if (thread) regain_gil(r, thread);
    r->copying = before;
    if (failed) return;
    arenas_backed -= a->backed - keep;
    a->backed = keep;
}

/* All slabs of a writer are back, and none is being written. */
static int is_at_rest(Ring *r) {
    if (r->copying || r->why) return 0;
    slabs_collect(r);
    return !r->arena.count;
}

void arena_note_short(Ring *r) {
    Arena *a = &r->arena;
    if (lucky_now_ns() < a->rests_from || !is_at_rest(r)) return;
    arena_trim(r, a->backed > ARENA_STEP ? a->backed - ARENA_STEP : 0);
    a->recent = 0;
}

/* The file system has room for so much more, and for what other programs take of it; see mapping.py. */
static int has_room(const Ring *r, uint64_t more) {
    PyObject *left = PyObject_CallMethod(r->view.obj, "has_room", "K", (unsigned long long)more);
    int room = left != Py_False; /* memory that is no such mapping has no bound of its own */
    Py_XDECREF(left);
    PyErr_Clear();
    return room;
}

/* Count the memory of the first `end` bytes as this arena's, taking it from others that are at rest where this process has
 * no more: 0 where there is none. */
static int arena_claim(Ring *r, uint64_t end) {
    uint64_t more = end - r->arena.backed;
    if (more && !has_room(r, more)) return 0;
    if (arenas_backed + more > ARENAS_LARGEST)
        for (PyObject *other = Py_XNewRef((PyObject *)arena_writers), *next; other; other = next) {
            int is_enough = arenas_backed + more <= ARENAS_LARGEST;
            if (!is_enough && other != (PyObject *)r && is_at_rest((Ring *)other)) arena_trim((Ring *)other, 0);
            next = Py_XNewRef((PyObject *)((Ring *)other)->arena.next);
            Py_DECREF(other);
        }
    if (arenas_backed + more > ARENAS_LARGEST) return 0;
    arenas_backed += more;
    return 1;
}

int populate(uint8_t *from, uint8_t *end) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)from & ~(page - 1);
    if (from >= end || !madvise((void *)start, (uintptr_t)end - start, MADV_POPULATE_WRITE) || errno == EINVAL) return 1;
    start = aligned((uintptr_t)from, page); /* it has got some of them */
    uintptr_t behind = (uintptr_t)end & ~(page - 1);
    if (start < behind) madvise((void *)start, behind - start, MADV_REMOVE);
    return 0;
}

void keep_memory(uint64_t length) {
    static uint64_t longest;
    if (length <= longest || length < SHORTEST_KEPT) return;
    longest = length;
    uint64_t together = 4 * (length < LONGEST_KEPT ? length : LONGEST_KEPT) + MALLOC_KEEPS; /* that a call holds */
    void *volatile block = malloc((size_t)(together < GLIBC_KEEPS ? together : GLIBC_KEEPS));
    free(block);
#ifdef M_TOP_PAD
    if (together < GLIBC_KEEPS || getenv("MALLOC_TRIM_THRESHOLD_") || getenv("MALLOC_MMAP_THRESHOLD_")) return;
    if (mallopt(M_MMAP_THRESHOLD, (int)together) && mallopt(M_TRIM_THRESHOLD, 2 * (int)together))
        mallopt(M_TOP_PAD, LONGEST_KEPT); /* of a thread's heap, which is as long */
#endif
}

PyObject *copy_out(Ring *r, const uint8_t *from, uint64_t size) {
    keep_memory(size);
    if (size < COPY_WITHOUT_GIL) return PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)size);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!bytes) return NULL;
    char *to = PyBytes_AsString(bytes);
    PyThreadState *thread = leave_gil(r);
    memcpy(to, from, size);
    regain_gil(r, thread);
    r->copying = 0;
    return bytes;
}

PyObject *arena_push(Ring *r, const Piece *pieces, int count, uint64_t call, uint64_t message) {
    Arena *a = &r->arena;
    uint64_t length = 0, begin;
    for (int i = 0; i < count; i++) length += pieces[i].size;
    if (length > a->size) return refuse(REFUSE_OUTGOING, length, r->size, a->size, 0);
    if (r->copying || length > arena_largest(r)) Py_RETURN_FALSE;
    uint32_t need;
    PyObject *answer;
    uint8_t *reference = ring_reserve(r, REFERENCE_BYTES, &need, &answer);
    if (!reference) return answer;
    slabs_collect(r);
    int rests = !a->count;
    if (a->count == a->capacity || !slab_place(a, length, 0, &begin)) Py_RETURN_FALSE;
    if (rests) a->recent -= a->recent / RECENT_SLABS;
    if (a->recent < begin + length) a->recent = begin + length;
    r->copying = RING_BUSY;
    if (rests && a->backed / 2 > a->recent) arena_trim(r, a->recent);
    uint64_t backed = a->backed, end = aligned(begin + length, ARENA_STEP);
    if (end > a->size) end = a->size;
    if (end < backed) end = backed;
    int is_backed = arena_claim(r, end);
    LUCKY_FAULT("slab.reserve");
    if (is_backed) {
        int is_open = !r->why;
        PyThreadState *thread = leave_gil(r);
        is_backed = is_open && populate(a->data + backed, a->data + end);
        for (uint8_t *to = a->data + begin; is_backed && count; to += pieces->size, pieces++, count--)
            memcpy(to, pieces->start, pieces->size);
        regain_gil(r, thread);
        if (is_backed) a->backed = end;
        else arenas_backed -= end - backed;
    }
    r->copying = 0;
    if (!open_ring_of((PyObject *)r)) return NULL; /* it was closed meanwhile */
    if (!is_backed) { /* the record has to be cut, to what there is memory for */
        a->refused_until = lucky_now_ns() + ARENA_REFUSED_NS;
        Py_RETURN_FALSE;
    }
    LUCKY_FAULT("slab.written");
    uint64_t said[3] = {begin, length, call};
    uint32_t word = message > UINT32_MAX ? UINT32_MAX : (uint32_t)message;
    *(uint32_t *)(reference - 4) = RING_REFERENCE;
    memcpy(reference, &word, sizeof word);
    memcpy(reference + 4, said, sizeof said);
    a->rests_from = lucky_now_ns() + ARENA_RESTS_NS;
    a->refused_until = 0;
    *slab_at(a, a->count) = (Slab){begin, begin + length, r->position + need};
    a->count++;
    ring_publish(r, need);
    Py_RETURN_TRUE;
}
