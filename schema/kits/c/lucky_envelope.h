/* Envelopes: one message of one call, as a record of a ring. */
#ifndef LUCKY_ENVELOPE_H
#define LUCKY_ENVELOPE_H

#include "lucky_error.h"
#include "lucky_flatbuffer.h"

#define LUCKY_MESSAGE_LIMIT (4u << 20) /* bytes of the longest message that is taken: gRPC's default, and Python's */
#define LUCKY_RECORD_OFFSET 4u         /* a record begins behind its length word, which lies at a multiple of 8 */

/* Spans point into the record. images: structs lucky_image_place. */
typedef struct {
    uint64_t correlation_id, deadline_ns, offset, total;
    uint32_t method, kind, status, streams, items, window, dropped, code;
    lucky_span details, payload, path, images;
} lucky_envelope;

/* 0, or -1 with RemoteProtocolError for anything but a sound envelope of a known kind. */
static inline int lucky_envelope_read(const uint8_t *record, uint32_t size, lucky_envelope *e, lucky_error *error) {
    lucky_buffer b = {record, size, 0};
    lucky_table t = lucky_root(&b);
    e->method = lucky_get_u32(&t, LUCKY_Envelope_method, 0);
    e->correlation_id = lucky_get_u64(&t, LUCKY_Envelope_correlation_id, 0);
    e->kind = lucky_get_u32(&t, LUCKY_Envelope_kind, 0);
    e->deadline_ns = lucky_get_u64(&t, LUCKY_Envelope_deadline_ns, 0);
    e->status = lucky_get_u32(&t, LUCKY_Envelope_status, 0);
    e->details = lucky_get_string(&t, LUCKY_Envelope_details);
    e->payload = lucky_get_vector(&t, LUCKY_Envelope_payload, 1);
    e->path = lucky_get_string(&t, LUCKY_Envelope_path);
    e->streams = lucky_get_u32(&t, LUCKY_Envelope_streams, 0);
    e->items = lucky_get_u32(&t, LUCKY_Envelope_items, 0);
    e->window = lucky_get_u32(&t, LUCKY_Envelope_window, 0);
    e->offset = lucky_get_u64(&t, LUCKY_Envelope_offset, 0);
    e->total = lucky_get_u64(&t, LUCKY_Envelope_total, 0);
    e->dropped = lucky_get_u32(&t, LUCKY_Envelope_dropped, 0);
    e->images = lucky_get_vector(&t, LUCKY_Envelope_images, 24);
    e->code = lucky_get_u32(&t, LUCKY_Envelope_code, 0);
    lucky_span metadata = lucky_get_vector(&t, LUCKY_Envelope_metadata, 4);
    for (uint32_t i = 0; i < metadata.size && !b.malformed; i++) {
        lucky_table entry = lucky_element(&t, metadata, i);
        lucky_get_string(&entry, LUCKY_Metadatum_key);
        lucky_get_vector(&entry, LUCKY_Metadatum_value, 1);
    }
    if (b.malformed) return lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "a record of %u bytes that is no envelope; the peer is broken", size);
    if (e->kind > LUCKY_KIND_HEADERS)
        return lucky_fail(error, LUCKY_ERROR_RemoteProtocolError, "an envelope of kind %u for method %u; the peer is broken", e->kind, e->method);
    return 0;
}

static inline lucky_ref lucky_bytes(lucky_builder *b, const void *data, uint32_t size, uint32_t alignment) {
    lucky_put(b, data, size, alignment);
    return lucky_put(b, &size, 4, 4);
}

/* The record is then `lucky_built(b)`, `b->used` bytes. Fields that are 0 or empty are left out. */
static inline void lucky_envelope_write(lucky_builder *b, const lucky_envelope *e) {
    lucky_ref details = 0, payload = 0, path = 0, images = 0;
    lucky_clear(b);
    if (e->payload.size) payload = lucky_bytes(b, e->payload.data, e->payload.size, 8);
    if (e->images.size) images = lucky_vector(b, e->images.data, e->images.size, 24);
    if (e->details.size) details = lucky_string(b, (const char *)e->details.data, e->details.size);
    if (e->path.size) path = lucky_string(b, (const char *)e->path.data, e->path.size);
    lucky_begin(b);
    const struct { uint32_t slot; uint64_t value; } wides[] = {
        {LUCKY_Envelope_correlation_id, e->correlation_id}, {LUCKY_Envelope_deadline_ns, e->deadline_ns},
        {LUCKY_Envelope_offset, e->offset}, {LUCKY_Envelope_total, e->total},
    };
    const struct { uint32_t slot, value; } words[] = {
        {LUCKY_Envelope_method, e->method}, {LUCKY_Envelope_kind, e->kind}, {LUCKY_Envelope_status, e->status},
        {LUCKY_Envelope_streams, e->streams}, {LUCKY_Envelope_items, e->items}, {LUCKY_Envelope_window, e->window},
        {LUCKY_Envelope_dropped, e->dropped}, {LUCKY_Envelope_code, e->code},
    };
    const struct { uint32_t slot; lucky_ref ref; } refs[] = {
        {LUCKY_Envelope_details, details}, {LUCKY_Envelope_payload, payload}, {LUCKY_Envelope_path, path},
        {LUCKY_Envelope_images, images},
    };
    for (size_t i = 0; i < sizeof wides / sizeof *wides; i++)
        if (wides[i].value) lucky_add_u64(b, wides[i].slot, wides[i].value);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].value) lucky_add_u32(b, words[i].slot, words[i].value);
    for (size_t i = 0; i < sizeof refs / sizeof *refs; i++)
        if (refs[i].ref) lucky_add_ref(b, refs[i].slot, refs[i].ref);
    lucky_finish(b, lucky_end(b), LUCKY_RECORD_OFFSET);
}

#endif
