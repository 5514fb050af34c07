/* What is too long for a record travels beside its ring, in a slab of the arena that both sides have mapped.
 *
 *   arena       slabs, each at a multiple of SLAB_ALIGNMENT; nothing stands between or before them
 *   reference   the record of a slab: a `Reference` in the ring, at a multiple of 8, as every record
 *               byte 0    u32 RING_REFERENCE, in the place of a length
 *               byte 4    u32 bytes of the message in it, 0 where the sender does not say
 *               byte 8    u64 first byte of the slab, counted from the arena's start
 *               byte 16   u64 bytes of the slab
 *               byte 24   u64 number of the call that it belongs to
 *
 * The writer alone places slabs, in a queue of its own; the arena has no shared words. The reader copies a slab out before
 * it gives the ring's record back, and the ring's read position gives back both. A reader believes a reference only as far
 * as it lies in the arena, and nothing of it is read twice.
 *
 * A writer starts at the arena's beginning whenever all slabs are back, so that the same pages are used again. Pages have
 * memory from the first slab that needs them on (`backed`), and lose it again as shm/arena.py says. A slab is written
 * without the GIL, and copied out so from COPY_WITHOUT_GIL bytes on; the end is `busy` meanwhile.
 */
#ifndef LUCKY_ARENA_H
#define LUCKY_ARENA_H

#include "native.h"

struct Ring;

typedef struct {
    uint32_t mark, message;
    uint64_t begin, length, call;
} Reference;

typedef struct {
    uint64_t begin, end; /* bytes of the arena */
    uint32_t after;      /* the ring's position behind its reference: once that is read, the slab is back */
} Slab;

typedef struct {
    uint8_t *data; /* NULL: the sides have not agreed on one */
    uint64_t size;
    uint64_t longest; /* a reader: bytes of the longest message that it copies out */
    /* A writer's: */
    uint64_t backed, recent; /* bytes from the start: with memory; that slabs took of late, a decaying maximum */
    Slab *slabs;             /* a queue of those that are out */
    uint32_t first, count, capacity;
    int64_t rests_from;      /* when it has written no slab for some time */
    int64_t refused_until;   /* there was no memory for more */
    struct Ring *next;       /* of the writers of this process */
} Arena;

/* One of the pieces that a record is put together from. */
typedef struct {
    const void *start;
    size_t size;
} Piece;

/* An end's arena at `offset` of its view: 0, or -1 with an error. */
int arena_init(struct Ring *r, int writes, unsigned long long offset, unsigned long long size);
void arena_dealloc(struct Ring *r);

/* Bytes of the longest record that a writer can push now, in the ring or in the arena. */
uint64_t arena_largest(const struct Ring *r);

/* Push a record that is too long for the ring: as `try_push`. */
PyObject *arena_push(struct Ring *r, const Piece *pieces, int count, uint64_t call, uint64_t message);

/* How many bytes must be free in the ring for a slab of `length` to have a place: 0 when it has one. */
int64_t arena_need(const struct Ring *r, uint64_t length);

/* A short record was pushed where the arena has memory: it may be time to give that back. */
void arena_note_short(struct Ring *r);

#endif
