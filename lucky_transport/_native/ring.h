/* A ring of records between one writer and one reader; ring.py says more.
 *
 *   byte 0      u32 write position, stored by the writer
 *   byte 128    u32 read position, stored by the reader
 *   byte 192    u32 1 while the writer waits for free space
 *   byte 256    records: [u32 length][bytes][padding to 8]; before the end, where the next one does not fit, [u32 SKIP];
 *               for what is longer than a record may be, [u32 REFERENCE] and where it lies: see arena.h
 *
 * The other side's words are read once into a local and believed only as far as they are possible. Publishing is: data,
 * release-store of the position, full fence, look at the other side's park word, wake it: by its socket where there is
 * one, else by the futex on the word. Pushing and popping keep the GIL but for long copies, which an end that is closed
 * meanwhile outlives: it holds its memory, and notifies no descriptor any more.
 *
 * One thread at a time uses an end; SendQueue's lock and the one reader of a pipe see to that. A long copy marks its end as
 * `busy` (memory.h), so that a second thread finds it full or empty. `shut` returns once no thread is in the memory, which
 * may be another client's from then on, and no end that is shut stores a position.
 */
#ifndef LUCKY_RING_H
#define LUCKY_RING_H

#include "arena.h"
#include "wait.h"

/* What `refuse` is told. */
enum {
    REFUSE_POSITIONS = 0,
    REFUSE_OUTGOING = 1,
    REFUSE_LENGTH = 2,
    REFUSE_SKIP = 3,
    REFUSE_REFERENCE = 4,
    REFUSE_MEMORY = 5
};

typedef struct Ring {
    PyObject_HEAD
    Py_buffer view;
    uint8_t *data;
    uint32_t *write, *read, *freed, *park;
    uint32_t size, position; /* position: our own side's, the shared word is for the peer alone */
    uint32_t backed;         /* a writer: bytes of the data with memory; what is behind gets it before its first record */
    uint64_t stops;          /* a reader: interrupted; a writer: closing */
    int socket, wakes;
    int woke_reader;   /* a writer: the reader was parked when the last record came */
    SpinBudget budget; /* a reader: what its waits taught it */
    PyObject *why; /* once shut: returns the error of a push or pop */
    Arena arena;
    pid_t busy; /* others keep off, unless RING_IDLE; memory.h says what else it is */
} Ring;

static inline uint32_t ring_largest(const Ring *r) { return r->size / 4 - 4; }

/* The ring of an object; NULL with TypeError for one that was never initialised. */
static inline Ring *ring_of(PyObject *self) {
    Ring *r = (Ring *)self;
    return r->write ? r : never_initialised();
}

/* Raise what the ring's check of this kind says to these values; NULL. `ring_refuse` says that the ring is gone, if it is. */
PyObject *refuse(int kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
PyObject *ring_refuse(const Ring *r, int kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
PyObject *ring_lost(const Ring *r);

/* What the types of both ends have. */
int ring_init(PyObject *self, PyObject *args, PyObject *kwargs, int writes);
void ring_dealloc(PyObject *self);
int ring_traverse(PyObject *self, visitproc visit, void *arg);
int ring_clear(PyObject *self);
PyObject *ring_shut(PyObject *self, PyObject *why);
PyObject *ring_size(PyObject *self, void *closure);
PyObject *ring_position(PyObject *self, void *closure);

/* The ring of an object that records may go through; NULL with TypeError for one that was never initialised, with the
 * error of `shut` for one that was shut. */
Ring *open_ring_of(PyObject *self);

/* Where a record of `length` bytes is to be written, to be followed by `ring_publish(r, need)`. NULL when it does not fit:
 * `answer` is then what to return, False or NULL with an error. */
uint8_t *ring_reserve(Ring *r, uint64_t length, uint32_t *need, PyObject **answer);
void ring_publish(Ring *r, uint32_t need);

/* This thread has taken a record from a ring, so it may take the next one. One that only answers, such as a handler's in a
 * pool, says 0 in place of its CPU: a peer that slept because of that would wait for a thread on another CPU. */
extern _Thread_local int reads_rings;

/* Push the record that is made of these pieces, in the ring or in the arena. call, message: for its reference. */
PyObject *ring_push_pieces(Ring *r, const Piece *pieces, int count, uint64_t call, uint64_t message);

/* A record in the ring, or in a slab. */
typedef struct {
    const uint8_t *start;
    uint64_t length;
    uint64_t call, message; /* of a slab, as its reference says: the call's number, bytes of the message */
    uint32_t after;         /* where the reader stands once it is taken */
} Record;

/* Find the oldest record: 0 when there is none, or with an error for what no writer may produce. */
int ring_oldest(Ring *r, Record *record);

/* Give back what was copied and return it; an error when the ring was lost while it was copied. */
PyObject *ring_taken(Ring *r, uint32_t position, PyObject *copied);

#endif
