/* Compact and image envelopes in a ring; see envelope.h. */
#include "envelope.h"
#include "faults.h"

/* Append an envelope made of its head, which is always the same, the rest of it, and the payload. `rest` ends with the
 * payload's length, which is put there. */
static PyObject *ring_push_headed(Ring *r, PyObject *payload, uint64_t call, const uint8_t *head, size_t head_bytes,
                                  void *rest, size_t rest_bytes) {
    Py_buffer v;
    if (PyObject_GetBuffer(payload, &v, PyBUF_SIMPLE)) return NULL;
    uint32_t length = (uint32_t)v.len;
    memcpy((uint8_t *)rest + rest_bytes - sizeof length, &length, sizeof length);
    Piece pieces[3] = {{head, head_bytes}, {rest, rest_bytes}, {v.buf, (size_t)v.len}};
    PyObject *answer = ring_push_pieces(r, pieces, 3, call, length);
    PyBuffer_Release(&v);
    return answer;
}

/* The head of every compact envelope, as in codec/envelope.py: root offset, vtable, distance back to it. */
static const uint8_t COMPACT_HEAD[32] = {28, 0, 0,  0, 0,  0, 0, 0, 20, 0, 32, 0, 4,  0, 8,  0,
                                         24, 0, 16, 0, 0,  0, 0, 0, 0,  0, 28, 0, 20, 0, 0,  0};
#define COMPACT_BYTES 68
#define COMPACT_PAYLOAD 8 /* offset of the payload, from its own word */
#define KINDS 10          /* of envelopes */
#define STREAM_ITEM 2

/* The rest of it: unaligned, so it is copied field by field. */
typedef struct __attribute__((packed)) {
    uint32_t method;
    uint64_t correlation_id, deadline_ns;
    uint32_t kind, offset, padding, length;
} CompactRest;

/* The head of every image envelope. */
static const uint8_t IMAGE_HEAD[48] = {44, 0, 0, 0, 0, 0, 0, 0, 36, 0, 28, 0, 0,  0, 8,  0, 16, 0, 0,  0, 0,  0, 0, 0,
                                       0,  0, 20, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0,  0, 0,  0, 4,  0, 24, 0, 36, 0, 0, 0};
#define IMAGE_BYTES 108
#define IMAGE_PAYLOAD 40 /* offsets, each from its own word */
#define IMAGE_IMAGES 4

typedef struct __attribute__((packed)) {
    uint32_t dropped;
    uint64_t correlation_id;
    uint32_t kind, payload, images, count;
    uint64_t bytes;
    uint32_t file, slot, number;
    uint64_t padding;
    uint32_t length;
} ImageRest;

static int as_u64(PyObject *value, uint64_t *number) {
    *number = PyLong_AsUnsignedLongLong(value);
    return *number == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

static int as_u32(PyObject *value, uint32_t *number) {
    uint64_t found;
    if (as_u64(value, &found)) return -1;
    *number = (uint32_t)found;
    if (found == *number) return 0;
    PyErr_Format(PyExc_OverflowError, "%llu in an envelope, expected less than 2**32", (unsigned long long)found);
    return -1;
}

/* push(kind, correlation_id, payload, method=0, deadline_ns=0, dropped=0, image=None): as try_push of the compact
 * envelope of these; of the image envelope, where image is (length, file, slot, number). */
PyObject *ring_push_fields(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    if (n < 3 || n > 7)
        return PyErr_Format(PyExc_TypeError, "push(kind, correlation_id, payload, method, deadline_ns, dropped, image)");
    uint32_t kind, method = 0, dropped = 0;
    uint64_t call, deadline = 0;
    if (as_u32(args[0], &kind) || as_u64(args[1], &call) || (n > 3 && as_u32(args[3], &method)) ||
        (n > 4 && as_u64(args[4], &deadline)) || (n > 5 && as_u32(args[5], &dropped)))
        return NULL;
    PyObject *image = n > 6 && args[6] != Py_None ? args[6] : NULL;
    if (image ? method || deadline : dropped)
        return PyErr_Format(PyExc_ValueError,
                            "a compact envelope has no dropped, an image envelope no method and no deadline");
    if (!image) {
        CompactRest rest = {method, call, deadline, kind, COMPACT_PAYLOAD, 0, 0};
        return ring_push_headed(r, args[2], call, COMPACT_HEAD, sizeof COMPACT_HEAD, &rest, sizeof rest);
    }
    ImageRest rest = {dropped, call, kind, IMAGE_PAYLOAD, IMAGE_IMAGES, 1, 0, 0, 0, 0, 0, 0};
    uint64_t bytes;
    uint32_t place[3];
    if (!PyTuple_Check(image) || PyTuple_Size(image) != 4)
        return PyErr_Format(PyExc_TypeError, "image: expected (length, file, slot, number)");
    if (as_u64(PyTuple_GetItem(image, 0), &bytes)) return NULL;
    for (int i = 0; i < 3; i++)
        if (as_u32(PyTuple_GetItem(image, i + 1), &place[i])) return NULL;
    rest.bytes = bytes;
    rest.file = place[0];
    rest.slot = place[1];
    rest.number = place[2];
    return ring_push_headed(r, args[2], call, IMAGE_HEAD, sizeof IMAGE_HEAD, &rest, sizeof rest);
}

/* True for a compact envelope, with all that is behind its head in `rest`: the peer may change it under us. */
static inline int compact_rest(const uint8_t *start, uint64_t length, CompactRest *rest) {
    if (length < COMPACT_BYTES || memcmp(start, COMPACT_HEAD, sizeof COMPACT_HEAD)) return 0;
    memcpy(rest, start + sizeof COMPACT_HEAD, sizeof *rest);
    return rest->offset == COMPACT_PAYLOAD && rest->length == length - COMPACT_BYTES && rest->kind < KINDS;
}

/* The same of an image envelope. */
static inline int image_rest(const uint8_t *start, uint64_t length, ImageRest *rest) {
    if (length < IMAGE_BYTES || memcmp(start, IMAGE_HEAD, sizeof IMAGE_HEAD)) return 0;
    memcpy(rest, start + sizeof IMAGE_HEAD, sizeof *rest);
    return rest->payload == IMAGE_PAYLOAD && rest->images == IMAGE_IMAGES && rest->count == 1 &&
           rest->length == length - IMAGE_BYTES && rest->kind < KINDS;
}

/* A tuple of `n` new references; NULL with an error when one of them is NULL. */
static PyObject *tuple_of(PyObject **items, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        if (!items[i] && tuple) {
            Py_DECREF(tuple);
            tuple = NULL;
        }
    }
    for (int i = 0; i < n; i++) {
        if (tuple) PyTuple_SetItem(tuple, i, items[i]);
        else Py_XDECREF(items[i]);
    }
    return tuple;
}

static inline uint64_t word_at(const uint8_t *place) {
    uint32_t word;
    memcpy(&word, place, sizeof word);
    return word;
}

#define PAYLOAD_SLOT 7 /* of an envelope's vtable */

/* Where the payload of a long record begins, with its bytes in `size`, if it ends the record; else 0. Any layout may be
 * there, and the peer may change it: what is read is believed as far as it lies in the record. */
static uint64_t payload_at_end(const uint8_t *start, uint64_t length, uint64_t *size) {
    if (length < APART_BYTES) return 0;
    uint64_t root = word_at(start);
    if (root > length - 4) return 0;
    int64_t vtable = (int64_t)root - (int32_t)word_at(start + root);
    uint64_t slot = (uint64_t)vtable + 4 + 2 * PAYLOAD_SLOT;
    if (vtable < 0 || slot > length - 4) return 0;
    uint64_t table = word_at(start + vtable) & 0xffff, field = word_at(start + slot) & 0xffff;
    if (table < 4 + 2 * (PAYLOAD_SLOT + 1) || !field || root + field > length - 4) return 0;
    uint64_t vector = root + field + word_at(start + root + field);
    if (vector > length - 4) return 0;
    *size = word_at(start + vector);
    uint64_t left = length - vector - 4;
    return *size >= APART_BYTES && *size <= left && left - *size < 4 ? vector + 4 : 0;
}

static PyObject *envelope_payload_at_end(PyObject *self, PyObject *record) {
    Py_buffer view;
    if (PyObject_GetBuffer(record, &view, PyBUF_SIMPLE)) return NULL;
    uint64_t size, payload = payload_at_end(view.buf, (uint64_t)view.len, &size);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(payload);
}

PyMethodDef envelope_methods[] = {
    {"payload_at_end", envelope_payload_at_end, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* The record in two pieces, of which the first says that the payload is empty. */
static PyObject *record_pieces(Ring *r, const uint8_t *start, uint64_t payload, uint64_t size) {
    PyObject *pieces = PyList_New(2), *front = copy_out(r, start, payload), *rest = copy_out(r, start + payload, size);
    if (!pieces || !front || !rest) {
        Py_XDECREF(pieces);
        Py_XDECREF(front);
        Py_XDECREF(rest);
        return NULL;
    }
    memset(PyBytes_AsString(front) + payload - 4, 0, 4);
    PyList_SetItem(pieces, 0, front);
    PyList_SetItem(pieces, 1, rest);
    return pieces;
}

/* What push takes of a compact or image envelope, in its order; of any other record its pieces or its bytes. */
static PyObject *record_fields(Ring *r, const uint8_t *start, uint64_t length) {
    CompactRest c;
    ImageRest i;
    if (compact_rest(start, length, &c)) {
        PyObject *fields[7] = {PyLong_FromUnsignedLong(c.kind),
                               PyLong_FromUnsignedLongLong(c.correlation_id),
                               copy_out(r, start + COMPACT_BYTES, c.length),
                               PyLong_FromUnsignedLong(c.method),
                               PyLong_FromUnsignedLongLong(c.deadline_ns),
                               PyLong_FromLong(0),
                               Py_NewRef(Py_None)};
        return tuple_of(fields, 7);
    }
    if (image_rest(start, length, &i)) {
        PyObject *image[4] = {PyLong_FromUnsignedLongLong(i.bytes), PyLong_FromUnsignedLong(i.file),
                              PyLong_FromUnsignedLong(i.slot), PyLong_FromUnsignedLong(i.number)};
        PyObject *fields[7] = {PyLong_FromUnsignedLong(i.kind),
                               PyLong_FromUnsignedLongLong(i.correlation_id),
                               copy_out(r, start + IMAGE_BYTES, i.length),
                               PyLong_FromLong(0),
                               PyLong_FromLong(0),
                               PyLong_FromUnsignedLong(i.dropped),
                               tuple_of(image, 4)};
        return tuple_of(fields, 7);
    }
    uint64_t size, payload = payload_at_end(start, length, &size);
    return payload ? record_pieces(r, start, payload, size) : copy_out(r, start, length);
}

/* Bytes of the message in a slab: what its reference says, or what the record has without what an envelope may have
 * around its message, if that is more. */
static inline uint64_t message_bytes(const Record *record) {
    uint64_t least = record->length > AROUND_MESSAGE ? record->length - AROUND_MESSAGE : 0;
    return record->message > least ? record->message : least;
}

static inline int too_long(const Ring *r, const Record *record) {
    return record->length > ring_largest(r) && message_bytes(record) > r->arena.longest;
}

/* What is said of a message that stays where it is: its call, its bytes, and those that are allowed. */
static PyObject *refused_fields(const Ring *r, const Record *record) {
    PyObject *fields[3] = {PyLong_FromUnsignedLongLong(record->call),
                           PyLong_FromUnsignedLongLong(message_bytes(record)),
                           PyLong_FromUnsignedLongLong(r->arena.longest)};
    return tuple_of(fields, 3);
}

/* The compact stream items of one call that lie behind each other, from the oldest record on and up to `limit`, as
 * (correlation_id, [payload, ...]). NULL: there is no second one, or with an error. The reader then stands where it
 * stood; nothing is given back in either case. */
static PyObject *ring_items(Ring *r, long limit) {
    uint32_t begin = r->position;
    uint64_t call = 0;
    PyObject *items = NULL;
    Record record;
    for (long n = 0; n < limit && ring_oldest(r, &record); n++) {
        CompactRest rest;
        if (too_long(r, &record) || !compact_rest(record.start, record.length, &rest)) break;
        if (rest.kind != STREAM_ITEM || (n && rest.correlation_id != call)) break;
        if (!n) {
            call = rest.correlation_id;
            if (lucky_load32(r->write) == record.after) return NULL;
            if (!(items = PyList_New(0))) return NULL;
        }
        PyObject *payload = copy_out(r, record.start + COMPACT_BYTES, rest.length);
        int failed = !payload || PyList_Append(items, payload);
        Py_XDECREF(payload);
        if (failed) {
            Py_DECREF(items);
            r->position = begin;
            return NULL;
        }
        r->position = record.after;
    }
    if (!items) return NULL;
    PyErr_Clear(); /* a bad record behind them: it is found again once these are read */
    PyObject *fields[2] = {PyLong_FromUnsignedLongLong(call), items};
    PyObject *run = tuple_of(fields, 2);
    if (!run && lucky_load32(r->read) == begin) r->position = begin; /* no skip that stood alone behind them is back */
    return run;
}

/* pop_batch(limit): the oldest record as push takes it, as its pieces or its bytes where it is no such envelope, None when
 * there is none; or, up to `limit` of them, the stream items of one call together. */
PyObject *ring_pop_batch(PyObject *self, PyObject *limit) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    long most = PyLong_AsLong(limit);
    if (most == -1 && PyErr_Occurred()) return NULL;
    PyObject *run = most > 1 ? ring_items(r, most) : NULL;
    if (run) return ring_taken(r, r->position, run);
    if (PyErr_Occurred()) return NULL;
    Record record;
    if (!ring_oldest(r, &record)) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *fields = too_long(r, &record) ? refused_fields(r, &record) : record_fields(r, record.start, record.length);
    return fields ? ring_taken(r, record.after, fields) : NULL;
}
