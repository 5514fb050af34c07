/* Messages that come in fragments: put together again, each call's for itself. */
#ifndef LUCKY_FRAGMENTS_H
#define LUCKY_FRAGMENTS_H

#include "lucky_envelope.h"

#define LUCKY_AROUND_BYTES (64u << 10)   /* what an envelope may have around its message */
#define LUCKY_FRAGMENT_BUDGET (64u << 20) /* what all unfinished messages of a client may take together */

typedef struct lucky_part {
    struct lucky_part *next;
    uint64_t call, total, length;
    uint8_t *bytes;
} lucky_part;

typedef struct {
    lucky_part *first;
    uint64_t held;
} lucky_fragments;

enum { LUCKY_FRAGMENT_MORE = 0, LUCKY_FRAGMENT_WHOLE = 1, LUCKY_FRAGMENT_REFUSED = 2, LUCKY_FRAGMENT_BROKEN = -1 };

static inline lucky_part **lucky_part_of(lucky_fragments *f, uint64_t call) {
    lucky_part **p = &f->first;
    while (*p && (*p)->call != call) p = &(*p)->next;
    return p;
}

/* Forget what came of the call's message. */
static inline void lucky_fragments_drop(lucky_fragments *f, uint64_t call) {
    lucky_part **p = lucky_part_of(f, call), *gone = *p;
    if (!gone) return;
    *p = gone->next;
    f->held -= gone->length;
    free(gone->bytes);
    free(gone);
}

static inline int lucky_too_large(lucky_error *error, uint64_t length) {
    return lucky_fail(error, LUCKY_ERROR_SpecError, "a message of %llu bytes, the limit is %u; send less", (unsigned long long)length,
                      LUCKY_MESSAGE_LIMIT);
}

/* Take one fragment. WHOLE: *bytes is the record, of *length bytes; free() it. REFUSED: the message is forgotten, and the
 * call fails with the error. BROKEN: the pieces do not fit together. */
static inline int lucky_fragments_add(lucky_fragments *f, const lucky_envelope *e, uint8_t **bytes, uint32_t *length, lucky_error *error) {
    lucky_part *p = *lucky_part_of(f, e->correlation_id);
    if (!p) {
        if (e->offset) return LUCKY_FRAGMENT_MORE; /* the rest of a message that was refused or has ended */
        uint64_t message = e->total > LUCKY_AROUND_BYTES ? e->total - LUCKY_AROUND_BYTES : 0;
        if (message < e->window) message = e->window;
        if (message > LUCKY_MESSAGE_LIMIT) {
            lucky_too_large(error, message);
            return LUCKY_FRAGMENT_REFUSED;
        }
        p = (lucky_part *)calloc(1, sizeof *p);
        if (!p) {
            lucky_fail(error, LUCKY_ERROR_NoSpace, "no memory for a message");
            return LUCKY_FRAGMENT_REFUSED;
        }
        p->call = e->correlation_id;
        p->total = e->total;
        p->next = f->first;
        f->first = p;
    }
    if (e->total != p->total || e->offset != p->length || !e->payload.size || e->payload.size > p->total - p->length) {
        lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "fragment of call %llu: %u bytes at %llu of %llu, expected some at %llu of %llu; the peer is broken",
                   (unsigned long long)p->call, e->payload.size, (unsigned long long)e->offset, (unsigned long long)e->total,
                   (unsigned long long)p->length, (unsigned long long)p->total);
        return LUCKY_FRAGMENT_BROKEN;
    }
    uint8_t *larger = f->held + e->payload.size > LUCKY_FRAGMENT_BUDGET ? NULL : (uint8_t *)realloc(p->bytes, p->length + e->payload.size);
    if (!larger) {
        lucky_fail(error, LUCKY_ERROR_SpecError, "unfinished messages of this client take more than %u bytes together; send fewer at once",
                   LUCKY_FRAGMENT_BUDGET);
        lucky_fragments_drop(f, p->call);
        return LUCKY_FRAGMENT_REFUSED;
    }
    p->bytes = larger;
    memcpy(p->bytes + p->length, e->payload.data, e->payload.size);
    p->length += e->payload.size;
    f->held += e->payload.size;
    if (p->length < p->total) return LUCKY_FRAGMENT_MORE;
    *bytes = p->bytes;
    *length = (uint32_t)p->length;
    p->bytes = NULL;
    lucky_fragments_drop(f, p->call);
    return LUCKY_FRAGMENT_WHOLE;
}

static inline void lucky_fragments_clear(lucky_fragments *f) {
    while (f->first) lucky_fragments_drop(f, f->first->call);
}

#endif
