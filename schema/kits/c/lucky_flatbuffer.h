/* FlatBuffers for C: a reader that verifies each place before it touches it, and a builder.
 *
 * flatc writes no C, so fields are named by their slot: LUCKY_<Message>_<field> in lucky_schema.h.
 *
 *   lucky_span name = lucky_get_string(&request, LUCKY_GetJointStateRequest_robot_name);
 *
 *   lucky_begin(b);                                            children first, then the table that refers to them
 *   lucky_add_bool(b, LUCKY_GetJointStateResponse_success, 1);
 *   lucky_add_ref(b, LUCKY_GetJointStateResponse_state, state);
 *   lucky_ref response = lucky_end(b);
 */
#ifndef LUCKY_FLATBUFFER_H
#define LUCKY_FLATBUFFER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire is little-endian, and this kit reads it in place"
#endif

#define LUCKY_MAX_DEPTH 64 /* of nested tables */
#define LUCKY_MAX_FIELDS 32

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Bytes in memory of our own. malformed: some place was outside; what was asked there reads as absent. */
typedef struct {
    const uint8_t *data;
    uint32_t size;
    int malformed;
} lucky_buffer;

/* A table; of one that is absent every field is absent. */
typedef struct {
    lucky_buffer *buffer;
    uint32_t at, vtable, vtable_size, size;
    int depth;
} lucky_table;

/* data is never NULL; a string's ends with a zero that does not count. size: in elements. */
typedef struct {
    const uint8_t *data;
    uint32_t size;
} lucky_span;

static inline uint32_t lucky_u32_at(const lucky_buffer *b, uint32_t at) {
    uint32_t value;
    memcpy(&value, b->data + at, 4);
    return value;
}

static inline uint16_t lucky_u16_at(const lucky_buffer *b, uint32_t at) {
    uint16_t value;
    memcpy(&value, b->data + at, 2);
    return value;
}

/* Where the offset at `at` points to: inside and 4-aligned; 0 when it is not. */
static inline uint32_t lucky_follow(lucky_buffer *b, uint32_t at) {
    uint64_t target = (uint64_t)at + lucky_u32_at(b, at);
    if (target != at && target % 4 == 0 && target + 4 <= b->size) return (uint32_t)target;
    b->malformed = 1;
    return 0;
}

static inline lucky_table lucky_table_at(lucky_buffer *b, uint32_t at, int depth) {
    lucky_table absent = {b, 0, 0, 0, 0, depth}, t = absent;
    if (!at) return absent;
    int64_t vtable = (int64_t)at - (int32_t)lucky_u32_at(b, at);
    if (depth <= LUCKY_MAX_DEPTH && vtable >= 0 && vtable % 2 == 0 && vtable + 4 <= (int64_t)b->size) {
        t.at = at;
        t.vtable = (uint32_t)vtable;
        t.vtable_size = lucky_u16_at(b, t.vtable);
        t.size = lucky_u16_at(b, t.vtable + 2);
        if (t.vtable_size >= 4 && t.vtable_size % 2 == 0 && t.vtable + t.vtable_size <= b->size && t.size >= 4 &&
            t.size <= b->size - at)
            return t;
    }
    b->malformed = 1;
    return absent;
}

static inline lucky_table lucky_root(lucky_buffer *b) {
    if (b->size >= 8) return lucky_table_at(b, lucky_follow(b, 0), 1);
    b->malformed = 1;
    return lucky_table_at(b, 0, 1);
}

/* Where the field in this slot lies, `width` bytes; 0 when it is absent. */
static inline uint32_t lucky_field(const lucky_table *t, uint32_t slot, uint32_t width) {
    if (4 + 2 * slot + 2 > t->vtable_size) return 0;
    uint32_t place = lucky_u16_at(t->buffer, t->vtable + 4 + 2 * slot);
    if (!place) return 0;
    if (place >= 4 && place + width <= t->size && place % (width < 4 ? width : 4) == 0) return t->at + place;
    t->buffer->malformed = 1;
    return 0;
}

#define LUCKY_GETTER(name, type)                                                       \
    static inline type lucky_get_##name(const lucky_table *t, uint32_t slot, type absent) { \
        uint32_t at = lucky_field(t, slot, sizeof(type));                              \
        if (at) memcpy(&absent, t->buffer->data + at, sizeof absent);                  \
        return absent;                                                                 \
    }
LUCKY_GETTER(u32, uint32_t)
LUCKY_GETTER(i32, int32_t)
LUCKY_GETTER(u64, uint64_t)
LUCKY_GETTER(f32, float)
LUCKY_GETTER(f64, double)
LUCKY_GETTER(bool, uint8_t)

/* A vector of elements of that many bytes; empty when it is absent. */
static inline lucky_span lucky_get_vector(const lucky_table *t, uint32_t slot, uint32_t width) {
    lucky_span span = {(const uint8_t *)"", 0};
    uint32_t field = lucky_field(t, slot, 4), at = field ? lucky_follow(t->buffer, field) : 0;
    if (!at) return span;
    uint32_t count = lucky_u32_at(t->buffer, at);
    if ((uint64_t)count * width <= t->buffer->size - at - 4) {
        span.data = t->buffer->data + at + 4;
        span.size = count;
    } else t->buffer->malformed = 1;
    return span;
}

static inline lucky_span lucky_get_string(const lucky_table *t, uint32_t slot) {
    lucky_span span = lucky_get_vector(t, slot, 1), empty = {(const uint8_t *)"", 0};
    if (!span.size || (span.data + span.size < t->buffer->data + t->buffer->size && !span.data[span.size])) return span;
    t->buffer->malformed = 1;
    return empty;
}

static inline lucky_table lucky_get_table(const lucky_table *t, uint32_t slot) {
    uint32_t field = lucky_field(t, slot, 4);
    return lucky_table_at(t->buffer, field ? lucky_follow(t->buffer, field) : 0, t->depth + 1);
}

/* Element `index` of a vector of tables that `lucky_get_vector(t, slot, 4)` found. */
static inline lucky_table lucky_element(const lucky_table *t, lucky_span vector, uint32_t index) {
    uint32_t at = (uint32_t)(vector.data - t->buffer->data) + 4 * index;
    return lucky_table_at(t->buffer, lucky_follow(t->buffer, at), t->depth + 1);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef uint32_t lucky_ref; /* bytes from the buffer's end */

/* Written from its end to its start, as FlatBuffers are. failed: the memory ran out; nothing is written any more. */
typedef struct {
    uint8_t *memory;
    uint32_t capacity, used, table_start, fields;
    uint32_t field_at[LUCKY_MAX_FIELDS];
    int failed;
} lucky_builder;

static inline uint8_t *lucky_built(const lucky_builder *b) { return b->memory + (b->capacity - b->used); }
static inline void lucky_clear(lucky_builder *b) { b->used = 0, b->failed = 0; }

/* Put `size` bytes in front, so that they begin at a multiple of `alignment`; NULL: zeros. */
static inline lucky_ref lucky_put(lucky_builder *b, const void *data, uint32_t size, uint32_t alignment) {
    uint64_t end = (uint64_t)b->used + size;
    uint32_t padding = (uint32_t)(-end & (alignment - 1));
    end += padding;
    if (end > b->capacity && !b->failed) {
        uint64_t capacity = end * 2 < 1024 ? 1024 : (end * 2 + 7) & ~(uint64_t)7;
        uint8_t *memory = capacity > INT32_MAX ? NULL : (uint8_t *)malloc((size_t)capacity);
        if (memory) {
            if (b->used) memcpy(memory + capacity - b->used, lucky_built(b), b->used);
            free(b->memory);
            b->memory = memory;
            b->capacity = (uint32_t)capacity;
        } else b->failed = 1;
    }
    if (b->failed) return 0;
    b->used += padding; /* behind the data in memory, since it grows towards the start */
    memset(lucky_built(b), 0, padding);
    b->used += size;
    if (data && size) memcpy(lucky_built(b), data, size);
    else memset(lucky_built(b), 0, size);
    return b->used;
}

static inline lucky_ref lucky_vector(lucky_builder *b, const void *data, uint32_t count, uint32_t width) {
    lucky_put(b, data, count * width, width > 4 ? 8 : 4);
    return lucky_put(b, &count, 4, 4);
}

static inline lucky_ref lucky_string(lucky_builder *b, const char *text, uint32_t length) {
    lucky_put(b, NULL, 4 - length % 4, 1); /* the zero at its end, and padding behind it */
    while (!b->failed && (b->used + length) % 4) lucky_put(b, NULL, 1, 1);
    lucky_put(b, text, length, 1);
    return lucky_put(b, &length, 4, 4);
}

static inline lucky_ref lucky_ref_vector(lucky_builder *b, const lucky_ref *refs, uint32_t count) {
    for (uint32_t i = count; i-- > 0;) {
        uint32_t at = lucky_put(b, NULL, 4, 4), offset = at - refs[i];
        if (!b->failed) memcpy(lucky_built(b), &offset, 4);
    }
    return lucky_put(b, &count, 4, 4);
}

static inline void lucky_begin(lucky_builder *b) {
    memset(b->field_at, 0, sizeof b->field_at);
    b->fields = 0;
    b->table_start = b->used;
}

static inline void lucky_add(lucky_builder *b, uint32_t slot, const void *value, uint32_t size, uint32_t alignment) {
    if (slot >= LUCKY_MAX_FIELDS) {
        b->failed = 1;
        return;
    }
    b->field_at[slot] = lucky_put(b, value, size, alignment);
    if (slot >= b->fields) b->fields = slot + 1;
}

#define LUCKY_ADDER(name, type) \
    static inline void lucky_add_##name(lucky_builder *b, uint32_t slot, type value) { lucky_add(b, slot, &value, sizeof value, sizeof value); }
LUCKY_ADDER(u32, uint32_t)
LUCKY_ADDER(i32, int32_t)
LUCKY_ADDER(u64, uint64_t)
LUCKY_ADDER(f32, float)
LUCKY_ADDER(f64, double)
LUCKY_ADDER(bool, uint8_t)

static inline void lucky_add_ref(lucky_builder *b, uint32_t slot, lucky_ref ref) {
    lucky_put(b, NULL, 0, 4);
    lucky_add_u32(b, slot, b->used + 4 - ref);
}

static inline lucky_ref lucky_end(lucky_builder *b) {
    uint16_t entries[LUCKY_MAX_FIELDS + 2];
    lucky_ref table = lucky_put(b, NULL, 4, 4);
    int32_t vtable_bytes = (int32_t)(4 + 2 * b->fields);
    if (b->failed) return 0;
    memcpy(lucky_built(b), &vtable_bytes, 4); /* from the table back to its vtable, which lies right before it */
    entries[0] = (uint16_t)vtable_bytes;
    entries[1] = (uint16_t)(table - b->table_start);
    for (uint32_t i = 0; i < b->fields; i++) entries[i + 2] = b->field_at[i] ? (uint16_t)(table - b->field_at[i]) : 0;
    lucky_put(b, entries, (uint32_t)vtable_bytes, 1);
    return table;
}

/* The buffer is `lucky_built(b)`, `b->used` bytes. before: bytes that will lie before it, of what is aligned to 8. */
static inline void lucky_finish(lucky_builder *b, lucky_ref root, uint32_t before) {
    while (!b->failed && (b->used + 4 + before) % 8) lucky_put(b, NULL, 1, 1);
    uint32_t offset = b->used + 4 - root;
    lucky_put(b, &offset, 4, 1);
}

#endif
