/* What an engine says to its client: in order; what has no room in the ring waits here. */
#ifndef LUCKY_OUTBOX_H
#define LUCKY_OUTBOX_H

#include "lucky_envelope.h"
#include "lucky_ring.h"

/* A client that leaves so much unread is not asked what it wants next. */
#define LUCKY_CONGESTED_BYTES (1u << 20)

typedef struct lucky_pending {
    struct lucky_pending *next;
    uint32_t size;
} lucky_pending; /* its bytes follow */

typedef struct {
    lucky_ring ring;
    uint32_t *park; /* of a client that waits for a record */
    lucky_builder wire, piece;
    lucky_pending *first, *last;
    uint64_t pending_bytes;
    int closed; /* nothing is written any more */
} lucky_outbox;

/* 1 when the record is written, or never will be: a client that broke its position gets nothing any more. */
static inline int lucky_outbox_try(lucky_outbox *o, const uint8_t *record, uint32_t size) {
    uint32_t need;
    if (o->closed) return 1;
    uint8_t *at = lucky_ring_reserve(&o->ring, size, &need);
    if (!at && !need) {
        fprintf(stderr, "lucky_transport: the client broke its position in the ring; it gets no answers any more\n");
        o->closed = 1;
        return 1;
    }
    if (!at) return 0;
    lucky_copy(at, record, size, "ring.half");
    lucky_tell_cpu(o->park, lucky_own_cpu());
    lucky_ring_publish(&o->ring, need);
    lucky_wake(o->park);
    return 1;
}

static inline void lucky_outbox_flush(lucky_outbox *o) {
    while (o->first && lucky_outbox_try(o, (const uint8_t *)(o->first + 1), o->first->size)) {
        lucky_pending *sent = o->first;
        o->pending_bytes -= sent->size;
        o->first = sent->next;
        if (!o->first) o->last = NULL;
        free(sent);
    }
}

static inline void lucky_outbox_post(lucky_outbox *o, const lucky_builder *record) {
    if (o->closed || record->failed) {
        o->closed = 1; /* out of memory: rather no answers than some of them */
        return;
    }
    if (!o->first && lucky_outbox_try(o, lucky_built(record), record->used)) return;
    lucky_pending *p = (lucky_pending *)malloc(sizeof *p + record->used);
    if (!p) {
        o->closed = 1;
        return;
    }
    p->next = NULL;
    p->size = record->used;
    memcpy(p + 1, lucky_built(record), record->used);
    if (o->last) o->last->next = p;
    else o->first = p;
    o->last = p;
    o->pending_bytes += p->size;
}

/* The longest envelope of a fragment with one byte. */
static inline uint32_t lucky_fragment_overhead(lucky_builder *b) {
    lucky_envelope e;
    memset(&e, 0, sizeof e);
    e.correlation_id = e.offset = e.total = UINT64_MAX;
    e.kind = LUCKY_KIND_FRAGMENT;
    e.window = UINT32_MAX;
    e.payload.data = (const uint8_t *)"";
    e.payload.size = 1;
    lucky_envelope_write(b, &e);
    return b->used + 8;
}

/* Send an envelope, in fragments when it is longer than the longest record; never waits. */
static inline void lucky_outbox_send(lucky_outbox *o, const lucky_envelope *e) {
    uint32_t largest = lucky_ring_largest(&o->ring);
    lucky_envelope_write(&o->wire, e);
    if (o->wire.used <= largest || o->wire.failed) {
        lucky_outbox_post(o, &o->wire);
        return;
    }
    uint32_t step = largest - lucky_fragment_overhead(&o->piece);
    for (uint32_t at = 0; at < o->wire.used && !o->closed; at += step) {
        lucky_envelope f;
        memset(&f, 0, sizeof f);
        f.correlation_id = e->correlation_id;
        f.kind = LUCKY_KIND_FRAGMENT;
        f.window = e->payload.size;
        f.offset = at;
        f.total = o->wire.used;
        f.payload.data = lucky_built(&o->wire) + at;
        f.payload.size = o->wire.used - at < step ? o->wire.used - at : step;
        lucky_envelope_write(&o->piece, &f);
        lucky_outbox_post(o, &o->piece);
    }
}

static inline void lucky_outbox_close(lucky_outbox *o) {
    o->closed = 1;
    while (o->first) {
        lucky_pending *p = o->first;
        o->first = p->next;
        free(p);
    }
    free(o->wire.memory);
    free(o->piece.memory);
    memset(&o->wire, 0, sizeof o->wire);
    memset(&o->piece, 0, sizeof o->piece);
    o->last = NULL;
    o->pending_bytes = 0;
}

#endif
