/* All calls of one client, as they come through the rings. A client that breaks the protocol gets an error and no answers
 * any more. Everything runs on the engine's thread. */
#ifndef LUCKY_CALLS_H
#define LUCKY_CALLS_H

#include "lucky_call.h"
#include "lucky_fragments.h"
#include "lucky_outbox.h"
#include "lucky_segment.h"

#define LUCKY_BATCH 64       /* records handled before the next step is looked for */
#define LUCKY_MAX_STREAMS 64 /* open at once */
#define LUCKY_GOAWAY 0u      /* the number of no call: an error for all of them */

typedef struct {
    const char *engine;
    const lucky_handler *handlers;
    uint32_t num_handlers;
    void *user;
    lucky_ring in;
    uint8_t *record; /* a copy of what is read: the client cannot change it meanwhile */
    lucky_outbox out;
    lucky_builder message;
    lucky_fragments fragments;
    lucky_images images;
    lucky_call *open;
    uint32_t num_open;
    uint64_t highest;
    int closed;
} lucky_calls;

/* Both rings are emptied; no client may be using them. */
static inline int lucky_calls_begin(lucky_calls *c, lucky_segment *s, lucky_error *error) {
    uint32_t size = s->sizes.ring_bytes;
    c->in = lucky_ring_at(s->mapping.start + s->plan.ring_to_engine, size, 0);
    c->out.ring = lucky_ring_at(s->mapping.start + s->plan.ring_to_client, size, 0);
    lucky_ring_reset(&c->in);
    lucky_ring_reset(&c->out.ring);
    c->out.park = lucky_word(s, LUCKY_OFFSET_PARK_COMMAND);
    c->out.closed = c->closed = 0;
    c->highest = 0;
    snprintf(c->images.segment, sizeof c->images.segment, "%s", s->mapping.path);
    if (!c->record) c->record = (uint8_t *)malloc(lucky_ring_largest(&c->in));
    return c->record ? 0 : lucky_fail(error, LUCKY_ERROR_NoSpace, "no memory for a record");
}

static inline uint32_t lucky_calls_written(const lucky_calls *c) { return lucky_load32(lucky_ring_word(&c->in, 0)); }

static inline const char *lucky_method_path(uint32_t method) {
    for (size_t i = 0; i < sizeof LUCKY_METHODS / sizeof *LUCKY_METHODS; i++)
        if (LUCKY_METHODS[i].id == method) return LUCKY_METHODS[i].path;
    return "this method";
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

static inline void lucky_send_error(lucky_calls *c, uint64_t id, const lucky_error *error, uint32_t dropped) {
    lucky_envelope e;
    memset(&e, 0, sizeof e);
    e.correlation_id = id;
    e.kind = LUCKY_KIND_ERROR;
    e.status = error->code;
    e.details.data = (const uint8_t *)error->text;
    e.details.size = (uint32_t)strlen(error->text);
    e.dropped = dropped;
    lucky_outbox_send(&c->out, &e);
}

static inline lucky_call **lucky_find_call(lucky_calls *c, uint64_t id) {
    lucky_call **p = &c->open;
    while (*p && (*p)->id != id) p = &(*p)->next;
    return p;
}

/* Forget a stream. is_lost: its client does not read its images any more. */
static inline void lucky_end_call(lucky_calls *c, lucky_call **p, int is_lost) {
    lucky_call *gone = *p;
    *p = gone->next;
    c->num_open--;
    lucky_images_retire(&c->images, gone->sink, is_lost);
    free(gone->bytes);
    free(gone);
}

/* Ask the handler once and send what it says; 0 when the call has ended by that. */
static inline int lucky_answer_once(lucky_calls *c, lucky_call *call, uint32_t kind) {
    lucky_envelope e;
    memset(&e, 0, sizeof e);
    lucky_clear(&c->message);
    call->error.code = 0;
    call->num_places = 0;
    call->out = &c->message;
    call->images = &c->images;
    lucky_ref root = call->handler->answer(c->user, call);
    if (call->buffer.malformed) lucky_fail(&call->error, LUCKY_ERROR_RemoteProtocolError, "the request of %s is malformed", lucky_method_path(call->handler->method));
    else if (c->message.failed) lucky_fail(&call->error, LUCKY_ERROR_NoSpace, "no memory for the answer of %s", lucky_method_path(call->handler->method));
    else if (!root && !call->error.code && kind == LUCKY_KIND_RESPONSE)
        lucky_fail(&call->error, LUCKY_ERROR_EngineFailed, "engine '%.100s': %s gave no answer", c->engine, lucky_method_path(call->handler->method));
    if (call->error.code || !root) {
        lucky_images_take_back(&c->images, call->places, call->num_places);
        if (call->error.code == LUCKY_ERROR_EngineFailed)
            fprintf(stderr, "lucky_transport: a call of %s failed: %s\n", lucky_method_path(call->handler->method), call->error.text);
        if (call->error.code) lucky_send_error(c, call->id, &call->error, call->dropped);
        else {
            e.correlation_id = call->id;
            e.kind = LUCKY_KIND_END;
            e.dropped = call->dropped;
            lucky_outbox_send(&c->out, &e);
        }
        return 0;
    }
    lucky_finish(&c->message, root, 0);
    e.correlation_id = call->id;
    e.kind = kind;
    e.dropped = call->dropped;
    e.payload.data = lucky_built(&c->message);
    e.payload.size = c->message.used;
    for (uint32_t i = 0; i < call->num_places && !e.images.size; i++)
        if (call->places[i].file) {
            e.images.data = (const uint8_t *)call->places;
            e.images.size = call->num_places;
        }
    lucky_outbox_send(&c->out, &e);
    call->spent_items++;
    call->spent_bytes += e.payload.size;
    if (kind == LUCKY_KIND_STREAM_ITEM && call->is_last) {
        memset(&e, 0, sizeof e);
        e.correlation_id = call->id;
        e.kind = LUCKY_KIND_END;
        e.dropped = call->dropped;
        lucky_outbox_send(&c->out, &e);
        return 0;
    }
    return 1;
}

/* Send the items that are due and that the client can take; returns how long until there is something to do, or *next_ns. */
static inline int64_t lucky_pump_streams(lucky_calls *c, int64_t at_most_ns) {
    if (!c->open) return at_most_ns;
    int64_t now = lucky_now_ns(), wait = at_most_ns;
    for (lucky_call **p = &c->open; *p;) {
        lucky_call *call = *p;
        if (call->deadline_ns && now >= call->deadline_ns) { /* its client knows by its own clock */
            lucky_end_call(c, p, 1);
            continue;
        }
        int64_t until = call->next_ns - now;
        int has_credit = call->spent_items < call->granted_items && call->spent_bytes < call->granted_bytes;
        if (!has_credit) until = at_most_ns; /* the client's next credit is a command */
        else if (c->out.first || !lucky_images_have_room(&c->images, call->sink)) until = LUCKY_FREED_POLL_NS;
        else if (until <= 0) {
            if (call->spent_items && call->hz > 0) {
                uint64_t tick = (uint64_t)((double)(now - call->start_ns) * call->hz / 1e9);
                if (tick <= call->tick) tick = call->tick + 1;
                call->dropped += (uint32_t)(tick - call->tick - 1);
                call->tick = tick;
            } else call->tick = call->spent_items;
            if (!lucky_answer_once(c, call, LUCKY_KIND_STREAM_ITEM)) {
                lucky_end_call(c, p, 0);
                continue;
            }
            call->next_ns = call->hz > 0 ? call->start_ns + (int64_t)((double)(call->tick + 1) / call->hz * 1e9) : now;
            until = call->next_ns - now;
        }
        if (until < wait) wait = until > 0 ? until : 0;
        p = &call->next;
    }
    return wait;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

static inline void lucky_on_request(lucky_calls *c, const lucky_envelope *e) {
    lucky_error error = {0, ""};
    const lucky_handler *handler = NULL;
    for (uint32_t i = 0; i < c->num_handlers && !e->path.size; i++)
        if (c->handlers[i].method == e->method) handler = &c->handlers[i];
    uint32_t shape = handler && handler->is_stream ? LUCKY_SERVER_STREAM : 0;
    if (e->payload.size > LUCKY_MESSAGE_LIMIT) lucky_too_large(&error, e->payload.size);
    else if (e->path.size) lucky_fail(&error, LUCKY_ERROR_Unimplemented, "engine '%.100s' does not implement %.200s", c->engine, e->path.data);
    else if (!handler) lucky_fail(&error, LUCKY_ERROR_Unimplemented, "engine '%.100s' does not implement %s (%u)", c->engine, lucky_method_path(e->method), e->method);
    else if (e->streams != shape)
        lucky_fail(&error, LUCKY_ERROR_LocalProtocolError, "%s was called with streams = %u, it has %u", lucky_method_path(e->method), e->streams, shape);
    else if (shape && c->num_open >= LUCKY_MAX_STREAMS)
        lucky_fail(&error, LUCKY_ERROR_Busy, "%d streams of this engine are open; wait for some of them", LUCKY_MAX_STREAMS);
    lucky_call *call = error.code ? NULL : (lucky_call *)calloc(1, sizeof *call);
    uint8_t *bytes = call ? (uint8_t *)malloc(e->payload.size + 1) : NULL;
    if (!error.code && !bytes) lucky_fail(&error, LUCKY_ERROR_NoSpace, "no memory for a call");
    if (error.code) {
        free(call);
        lucky_send_error(c, e->correlation_id, &error, 0);
        return;
    }
    memcpy(bytes, e->payload.data, e->payload.size);
    call->bytes = bytes;
    call->id = e->correlation_id;
    call->handler = handler;
    call->buffer.data = bytes;
    call->buffer.size = e->payload.size;
    call->request = e->payload.size ? lucky_root(&call->buffer) : lucky_table_at(&call->buffer, 0, 1);
    call->hz = handler->hz;
    call->start_ns = call->next_ns = lucky_now_ns();
    if (e->deadline_ns && e->deadline_ns < (uint64_t)(INT64_MAX - call->start_ns)) call->deadline_ns = call->start_ns + (int64_t)e->deadline_ns;
    call->granted_items = e->items;
    call->granted_bytes = e->window;
    if (shape) {
        call->sink = call->id;
        call->next = c->open;
        c->open = call;
        c->num_open++;
        return;
    }
    lucky_answer_once(c, call, LUCKY_KIND_RESPONSE);
    free(call->bytes);
    free(call);
}

/* 0, or -1 with what ends the connection. */
static inline int lucky_on_envelope(lucky_calls *c, const lucky_envelope *e, int is_whole, lucky_error *error) {
    uint64_t id = e->correlation_id;
    if (e->kind == LUCKY_KIND_FRAGMENT) {
        uint8_t *bytes = NULL;
        uint32_t length = 0;
        if (id > c->highest) c->highest = id;
        int state = lucky_fragments_add(&c->fragments, e, &bytes, &length, error);
        if (state == LUCKY_FRAGMENT_BROKEN) return -1;
        if (state == LUCKY_FRAGMENT_REFUSED) {
            lucky_call **p = lucky_find_call(c, id);
            lucky_send_error(c, id, error, 0);
            if (*p) lucky_end_call(c, p, 0);
        }
        if (state != LUCKY_FRAGMENT_WHOLE) return 0;
        lucky_envelope whole;
        int failed = lucky_envelope_read(bytes, length, &whole, error);
        if (!failed && (is_whole || whole.correlation_id != id || whole.kind == LUCKY_KIND_FRAGMENT))
            failed = lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "fragments of call %llu hold another call's message", (unsigned long long)id);
        if (!failed) failed = lucky_on_envelope(c, &whole, 1, error);
        free(bytes);
        return failed;
    }
    lucky_call **p = lucky_find_call(c, id);
    if (e->kind == LUCKY_KIND_REQUEST) {
        if (e->streams > 3 || id == LUCKY_GOAWAY || *p)
            return lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "a request with streams = %u and the number %llu, which is none or of an open call; the peer is broken",
                              e->streams, (unsigned long long)id);
        if (id > c->highest) c->highest = id;
        lucky_on_request(c, e);
        return 0;
    }
    if (e->kind == LUCKY_KIND_CANCEL) { /* the call may have ended, or not have begun */
        lucky_fragments_drop(&c->fragments, id);
        if (*p) lucky_end_call(c, p, 1);
        return 0;
    }
    if (!*p && id <= c->highest) return 0;
    if (!*p || e->kind != LUCKY_KIND_CREDIT)
        return lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "the client sent an envelope of kind %u for call %llu; it is broken, connect again",
                          e->kind, (unsigned long long)id);
    (*p)->granted_items += e->items;
    (*p)->granted_bytes += e->window;
    return 0;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

/* End every call without a word; what the client has not read stays for it to read. */
static inline void lucky_calls_close(lucky_calls *c) {
    c->closed = 1;
    while (c->open) lucky_end_call(c, &c->open, 1);
    lucky_fragments_clear(&c->fragments);
    lucky_outbox_close(&c->out);
    lucky_images_clear(&c->images);
}

/* Tell the client of every call, and of all that would come, that it ends here; then close. */
static inline void lucky_calls_shut_down(lucky_calls *c, const lucky_error *error) {
    if (c->closed) return;
    for (lucky_call *call = c->open; call; call = call->next) lucky_send_error(c, call->id, error, call->dropped);
    lucky_send_error(c, LUCKY_GOAWAY, error, 0);
    lucky_calls_close(c);
}

/* Handle what waits, some records at most: 1 when all was read, 0 when some is left, -1 with what ended the connection. */
static inline int lucky_calls_feed(lucky_calls *c, lucky_error *error) {
    if (c->closed) return 1;
    for (int i = 0; i < LUCKY_BATCH; i++) {
        lucky_envelope e;
        uint32_t length;
        if (c->out.pending_bytes > LUCKY_CONGESTED_BYTES) return 0;
        int state = lucky_ring_pop(&c->in, c->record, &length);
        if (state == LUCKY_RING_EMPTY) return 1;
        if (state == LUCKY_RING_REFUSED) lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "the client left no record in its ring; it is broken, connect again");
        if (state == LUCKY_RING_REFUSED || lucky_envelope_read(c->record, length, &e, error) || lucky_on_envelope(c, &e, 0, error)) {
            lucky_calls_shut_down(c, error);
            return -1;
        }
    }
    return c->in.position == lucky_calls_written(c);
}

#endif
