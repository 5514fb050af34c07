/* A call of the client, as its handler sees it, and the table of handlers. */
#ifndef LUCKY_CALL_H
#define LUCKY_CALL_H

#include "lucky_envelope.h"
#include "lucky_images.h"

#define LUCKY_MAX_IMAGES 16u /* of one message */
#define LUCKY_SERVER_STREAM 2u /* bit 1 of an envelope's `streams` */

struct lucky_call;

/* Write the response, or the stream's next item, into call->out and return its root: `return lucky_end(call->out)`. Return 0
 * to end a stream without a further item, or after `lucky_fail(&call->error, ...)`, which fails the call with that error. */
typedef lucky_ref (*lucky_answer)(void *user, struct lucky_call *call);

/* hz: items of a stream per second, at most; 0: whenever the client can take one. Handlers run between two steps. */
typedef struct {
    uint32_t method; /* LUCKY_METHOD_... */
    int is_stream;
    double hz;
    lucky_answer answer;
} lucky_handler;

typedef struct lucky_call {
    /* for the handler */
    lucky_table request;
    lucky_builder *out;
    lucky_error error;
    uint64_t tick; /* of a stream: 0, 1, 2, ...; those that the client could not take in time are left out */
    double hz;     /* as in the table, until the handler changes it */
    int is_last;   /* set to 1: the stream ends after this item */

    /* for the kit */
    struct lucky_call *next;
    const lucky_handler *handler;
    lucky_buffer buffer;
    uint8_t *bytes; /* the request's, of a stream */
    uint64_t id;
    int64_t start_ns, deadline_ns, next_ns; /* on the monotonic clock; deadline 0: none */
    uint64_t granted_items, granted_bytes, spent_items, spent_bytes;
    uint32_t dropped;
    lucky_images *images;
    uint64_t sink;
    lucky_image_place places[LUCKY_MAX_IMAGES];
    uint32_t num_places;
} lucky_call;

/* 1 when what was read of the request so far is not a sound message. Look after you have read and before you act: the call
 * then fails with RemoteProtocolError whatever the handler returns. */
static inline int lucky_is_malformed(const lucky_call *call) { return call->buffer.malformed; }

/* Pixels of an ImageFrame; `if (data) lucky_add_ref(call->out, LUCKY_ImageFrame_data, data)`. They travel beside the ring,
 * and 0 is returned; where that is not possible they are written into the message. Several: in the order of the fields. */
static inline lucky_ref lucky_image_data(lucky_call *call, const void *pixels, uint32_t size) {
    if (call->num_places == LUCKY_MAX_IMAGES) {
        lucky_fail(&call->error, LUCKY_ERROR_SpecError, "more than %u images in a message", LUCKY_MAX_IMAGES);
        return 0;
    }
    lucky_image_place place = lucky_images_post(call->images, call->sink, pixels, size);
    call->places[call->num_places++] = place;
    return place.file ? 0 : lucky_bytes(call->out, pixels, size, 8);
}

/* "agent_3" is env 3, "" env 0; -1 when there is none. */
static inline int64_t lucky_env_of(lucky_span agent, uint32_t num_envs) {
    int64_t env = 0;
    if (!agent.size) return 0;
    if (agent.size < 7 || memcmp(agent.data, "agent_", 6)) return -1;
    for (uint32_t i = 6; i < agent.size; i++) {
        if (agent.data[i] < '0' || agent.data[i] > '9' || env >= num_envs) return -1;
        env = env * 10 + agent.data[i] - '0';
    }
    return env < num_envs ? env : -1;
}

/* Element of a vector that lucky_get_vector(t, slot, 8) found. */
static inline uint64_t lucky_span_u64(lucky_span span, uint32_t index) {
    uint64_t value;
    memcpy(&value, span.data + (size_t)8 * index, 8);
    return value;
}

#endif
