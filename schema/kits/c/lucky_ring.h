/* A ring of records between one writer and one reader; lucky_transport/shm/ring.py defines it.
 *
 *   byte 0      u32 write position, stored by the writer
 *   byte 128    u32 read position, stored by the reader
 *   byte 192    u32 1 while the writer waits for free space
 *   byte 256    records: [u32 length][bytes][padding to 8]; before the end, where the next one does not fit, [u32 SKIP]
 *
 * The other side's words are read once into a local and believed only as far as they are possible.
 */
#ifndef LUCKY_RING_H
#define LUCKY_RING_H

#include "lucky_fault.h"
#include "lucky_wait.h"

#include <string.h>

/* One end. position: our own; the shared word is for the peer alone. */
typedef struct {
    uint8_t *head, *data;
    uint32_t size, position;
} lucky_ring;

enum { LUCKY_RING_EMPTY = 0, LUCKY_RING_FULL = 0, LUCKY_RING_DONE = 1, LUCKY_RING_REFUSED = -1 };

static inline uint32_t *lucky_ring_word(const lucky_ring *r, uint32_t offset) {
    return (uint32_t *)(void *)(r->head + offset);
}

static inline lucky_ring lucky_ring_at(uint8_t *head, uint32_t size, uint32_t position) {
    lucky_ring ring = {head, head + LUCKY_RING_HEAD_BYTES, size, position};
    return ring;
}

/* Make it empty; while neither side uses it. */
static inline void lucky_ring_reset(lucky_ring *r) {
    r->position = 0;
    lucky_store32(lucky_ring_word(r, 0), 0);
    lucky_store32(lucky_ring_word(r, LUCKY_RING_READ), 0);
    lucky_store32(lucky_ring_word(r, LUCKY_RING_WRITER_PARK), 0);
}

static inline uint32_t lucky_ring_largest(const lucky_ring *r) { return r->size / 4 - 4; }

/* Where to write a record of `length` bytes, to be followed by `lucky_ring_publish(r, *need)`. NULL: no room now, or with
 * *need 0: it never fits, or the reader's position cannot be. */
static inline uint8_t *lucky_ring_reserve(const lucky_ring *r, uint32_t length, uint32_t *need) {
    uint32_t read = lucky_load32(lucky_ring_word(r, LUCKY_RING_READ)), used = lucky_ring_distance(r->position, read);
    *need = 0;
    if (!length || length > lucky_ring_largest(r) || used > r->size) return NULL;
    uint32_t stride = (length + 4 + 7) & ~7u, index = r->position & (r->size - 1);
    uint32_t skipped = index + stride > r->size ? r->size - index : 0;
    *need = skipped + stride;
    if (*need > r->size - used) return NULL;
    uint32_t skip = LUCKY_RING_SKIP;
    LUCKY_FAULT("ring.reserve");
    if (skipped) {
        memcpy(r->data + index, &skip, 4);
        LUCKY_FAULT("ring.skip");
        index = 0;
    }
    memcpy(r->data + index, &length, 4);
    LUCKY_FAULT("ring.length");
    return r->data + index + 4;
}

static inline void lucky_ring_publish(lucky_ring *r, uint32_t need) {
    r->position += need;
    LUCKY_FAULT("ring.payload");
    lucky_store32(lucky_ring_word(r, 0), r->position); /* release: the record is visible before the position */
    LUCKY_FAULT("ring.published");
}

static inline void lucky_ring_give_back(lucky_ring *r, uint32_t position) {
    r->position = position;
    LUCKY_FAULT("ring.taken");
    lucky_store32(lucky_ring_word(r, LUCKY_RING_READ), position);
    LUCKY_FAULT("ring.given_back");
    lucky_wake(lucky_ring_word(r, LUCKY_RING_WRITER_PARK));
}

/* Copy the oldest record out, at most `lucky_ring_largest` bytes: it is checked as a copy, which the peer cannot change.
 * LUCKY_RING_REFUSED for what no writer may leave there. */
static inline int lucky_ring_pop(lucky_ring *r, uint8_t *copy, uint32_t *length) {
    uint32_t write = lucky_load32(lucky_ring_word(r, 0)), position = r->position, published = lucky_ring_distance(write, position);
    if (!published) return LUCKY_RING_EMPTY;
    if (published > r->size) return LUCKY_RING_REFUSED;
    uint32_t index = position & (r->size - 1);
    *length = __atomic_load_n((const uint32_t *)(const void *)(r->data + index), __ATOMIC_RELAXED);
    if (*length == LUCKY_RING_SKIP) {
        uint32_t skipped = r->size - index;
        if (skipped >= r->size / 4 || skipped > published) return LUCKY_RING_REFUSED;
        position += skipped;
        published -= skipped;
        if (!published) { /* a writer may publish the skip ahead of the record that needs it */
            lucky_ring_give_back(r, position);
            return LUCKY_RING_EMPTY;
        }
        index = 0;
        *length = __atomic_load_n((const uint32_t *)(const void *)r->data, __ATOMIC_RELAXED);
    }
    if (!*length || *length > lucky_ring_largest(r)) return LUCKY_RING_REFUSED;
    uint32_t stride = (*length + 4 + 7) & ~7u;
    if (stride > published || index + stride > r->size) return LUCKY_RING_REFUSED;
    memcpy(copy, r->data + index + 4, *length);
    lucky_ring_give_back(r, position + stride);
    return LUCKY_RING_DONE;
}

#endif
