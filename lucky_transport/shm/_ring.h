/* The two ends of a ring of records: RingWriter and RingReader, each call one record. Part of _atomics.c.
 *
 * What a ring looks like and what may be in it is told in ring.py and record.py; this file does the same in C.
 *
 * Rule 1: the other side's words are read once into a local and believed only as far as they are possible; what cannot
 *         be is refused by `refusals.refuse` in Python, which words the error as the pure-Python ends do.
 * Rule 2: publishing is: data, release-store of the position, full fence, look at the other side's park word, wake it:
 *         by its bell (an eventfd) where there is one, else by the futex on the word.
 * Rule 3: a writer that waits for room says so in the ring's third word, and the reader wakes it there. A peer that
 *         does not know the word is looked at each ROOM_NAP_NS.
 * Rule 4: `push` and `pop` keep the GIL, so that an end is never closed inside them.
 */
#define RING_READ 128
#define RING_ROOM 192
#define RING_HEAD 256
#define RING_SKIP 0xFFFFFFFFu
#define RING_SMALLEST 64u
#define RING_LARGEST 0x80000000u
#define ROOM_NAP_NS 1000000
#define ROOM_PIECE_NS 20000000

/* What `refuse` is told. */
enum { REFUSE_POSITIONS = 0, REFUSE_OUTGOING = 1, REFUSE_LENGTH = 2, REFUSE_SKIP = 3 };

typedef struct {
    PyObject_HEAD
    Py_buffer view; /* as the channels: `channel_dealloc` lets it go */
    uint8_t *data;
    uint32_t *write, *read, *room, *park;
    uint32_t size, position; /* position: our own side's, the shared word is for the peer alone */
    uint64_t stops;          /* a reader: interrupted; a writer: closing */
    int bell, strategy, wakes;
    int woke; /* a writer: the reader was parked when the last record came */
    int habit; /* a reader: what its waits have taught it */
    PyObject *why; /* once shut: returns the error of whoever pushes or pops */
} Ring;

static PyObject *refuse(int kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    PyObject *module = PyImport_ImportModule("lucky_transport.shm.refusals");
    if (!module) return NULL;
    PyObject *answer = PyObject_CallMethod(module, "refuse", "iKKKK", kind, (unsigned long long)a, (unsigned long long)b,
                                           (unsigned long long)c, (unsigned long long)d);
    Py_DECREF(module);
    if (answer) {
        Py_DECREF(answer);
        PyErr_SetString(PyExc_SystemError, "refuse() did not refuse");
    }
    return NULL;
}

/* Raise what the mapping says about being truncated; see mapping.py. */
static PyObject *ring_lost(const Ring *r) {
    PyObject *error = PyObject_CallMethod(r->view.obj, "error", NULL);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

/* Refuse what is in the ring, or say that it is gone. */
static PyObject *ring_refuse(const Ring *r, int kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return is_lost(r->data) ? ring_lost(r) : refuse(kind, a, b, c, d);
}

static inline uint32_t ring_largest(const Ring *r) { return r->size / 4 - 4; }

/* How far `write` is ahead of `read`, or more than the size when that cannot be. */
static inline uint32_t ring_distance(const Ring *r, uint32_t write, uint32_t read) {
    uint32_t distance = write - read;
    return (write | read) % 8 ? RING_SKIP : distance;
}

/* O_NONBLOCK belongs to the open file, which the peer shares and may change: a bell that is full is not written to, it
 * rings already. bell.py does the same. */
static void ring_bell(int bell) {
    struct pollfd p = {bell, POLLOUT, 0};
    if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT)) return;
    uint64_t one = 1;
    ssize_t written = write(bell, &one, sizeof one);
    (void)written;
}

/* Wake whoever said that it is parked on `park`; 0 when nobody was. */
static inline int ring_wake(uint32_t *park, int bell) {
    if (bell < 0) return wake(park);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(park, __ATOMIC_RELAXED) || !__atomic_exchange_n(park, 0, __ATOMIC_ACQ_REL)) return 0;
    ring_bell(bell);
    return 1;
}

/* Ring(memory, offset, size, park=-1, bell=-1, strategy=WAIT_ADAPTIVE, wakes=PEER_WAKES) */
static int ring_init(PyObject *self, PyObject *args, PyObject *kwargs, int writes) {
    Ring *r = (Ring *)self;
    PyObject *memory;
    unsigned long long offset;
    unsigned int size;
    long long park = -1;
    int bell = -1, strategy = WAIT_ADAPTIVE, wakes = PEER_WAKES;
    if ((kwargs && PyDict_Size(kwargs)) || r->view.obj) {
        PyErr_SetString(PyExc_TypeError, "a ring's end takes positional arguments, once");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OKI|Liii", &memory, &offset, &size, &park, &bell, &strategy, &wakes)) return -1;
    if (size < RING_SMALLEST || size > RING_LARGEST || size & (size - 1)) {
        PyErr_Format(PyExc_ValueError, "a ring of %u data bytes, expected a power of two from 64", size);
        return -1;
    }
    if (PyObject_GetBuffer(memory, &r->view, PyBUF_WRITABLE)) return -1;
    uint8_t *start = at(&r->view, offset, (unsigned long long)RING_HEAD + size, 8);
    if (!start || (park >= 0 && !(r->park = at(&r->view, (unsigned long long)park, 4, 4)))) return -1;
    r->write = (uint32_t *)start;
    r->read = (uint32_t *)(start + RING_READ);
    r->room = (uint32_t *)(start + RING_ROOM);
    r->data = start + RING_HEAD;
    r->size = size;
    r->bell = bell;
    r->strategy = strategy;
    r->wakes = wakes & PEER_WAKES;
    uint32_t write = load32(r->write), read = load32(r->read);
    r->position = writes ? write : read;
    if (ring_distance(r, write, read) > size) {
        refuse(REFUSE_POSITIONS, write, read, size, 0);
        return -1;
    }
    return 0;
}

/* The ring of an object; NULL with TypeError for one that was never initialised. */
static inline Ring *ring_of(PyObject *self) {
    Ring *r = (Ring *)self;
    if (r->write) return r;
    PyErr_SetString(PyExc_TypeError, "this end was never initialised");
    return NULL;
}

/* The same, of an end that records may go through; NULL with its error for one that was shut. */
static inline Ring *open_ring_of(PyObject *self) {
    Ring *r = ring_of(self);
    if (!r || !r->why) return r;
    PyObject *error = PyObject_CallNoArgs(r->why);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

/* shut(why): refuse every record from now on, with the error that why() returns. */
static PyObject *ring_shut(PyObject *self, PyObject *why) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    PyObject *before = r->why;
    r->why = Py_NewRef(why);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static int ring_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Ring *)self)->why);
    return 0;
}

static int ring_clear(PyObject *self) {
    Py_CLEAR(((Ring *)self)->why);
    return 0;
}

static void ring_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    ring_clear(self);
    channel_dealloc(self);
}

static PyObject *ring_size(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromUnsignedLong(r->size) : NULL;
}

static PyObject *ring_position(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromUnsignedLong(r->position) : NULL;
}

/* ---- the writing end -------------------------------------------------------------------------------------------- */

/* Free bytes; -1 when the reader's position cannot be, `read` is then what it was. */
static inline int64_t ring_room(const Ring *r, uint32_t *read) {
    *read = load32(r->read);
    uint32_t used = ring_distance(r, r->position, *read);
    return used > r->size ? -1 : (int64_t)(r->size - used);
}

/* Bytes that a record of `length` takes now: its stride, and what has to be skipped before it. */
static inline uint32_t ring_need(const Ring *r, uint32_t length, uint32_t *skipped) {
    uint32_t stride = (4 + length + 7) & ~7u, index = r->position & (r->size - 1);
    *skipped = (uint64_t)index + stride > r->size ? r->size - index : 0;
    return *skipped + stride;
}

/* Where a record of `length` bytes is to be written, to be followed by `ring_publish(r, need)`. NULL when it does not fit:
 * `answer` is then what to return, False or an error. */
static uint8_t *ring_reserve(Ring *r, uint64_t length, uint32_t *need, PyObject **answer) {
    *answer = NULL;
    if (length == 0 || length > ring_largest(r)) {
        refuse(REFUSE_OUTGOING, length, r->size, 0, 0);
        return NULL;
    }
    uint32_t skipped, read;
    *need = ring_need(r, (uint32_t)length, &skipped);
    int64_t room = ring_room(r, &read);
    if (room < (int64_t)*need) {
        if (room < 0) ring_refuse(r, REFUSE_POSITIONS, r->position, read, r->size, 0);
        else *answer = Py_NewRef(Py_False);
        return NULL;
    }
    uint32_t index = r->position & (r->size - 1);
    if (skipped) {
        *(uint32_t *)(r->data + index) = RING_SKIP;
        index = 0;
    }
    *(uint32_t *)(r->data + index) = (uint32_t)length;
    return r->data + index + 4;
}

static void ring_publish(Ring *r, uint32_t need) {
    r->position += need;
    __atomic_store_n(r->write, r->position, __ATOMIC_RELEASE);
    r->woke = r->park && ring_wake(r->park, r->bell);
}

static PyObject *ring_push(PyObject *self, PyObject *record) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    Py_buffer v;
    if (PyObject_GetBuffer(record, &v, PyBUF_SIMPLE)) return NULL;
    uint32_t need;
    PyObject *answer;
    uint8_t *place = ring_reserve(r, (uint64_t)v.len, &need, &answer);
    if (place) memcpy(place, v.buf, (size_t)v.len);
    PyBuffer_Release(&v);
    if (!place) return answer;
    ring_publish(r, need);
    Py_RETURN_TRUE;
}

/* Append an envelope made of its head, which is always the same, the rest of it, and the payload. `rest` ends with the
 * payload's length, which is put there. */
static PyObject *ring_push_headed(Ring *r, PyObject *payload, const uint8_t *head, size_t head_bytes, void *rest,
                                  size_t rest_bytes) {
    Py_buffer v;
    if (PyObject_GetBuffer(payload, &v, PyBUF_SIMPLE)) return NULL;
    uint32_t need, length = (uint32_t)v.len;
    PyObject *answer;
    uint8_t *place = ring_reserve(r, (uint64_t)v.len + head_bytes + rest_bytes, &need, &answer);
    if (place) {
        memcpy((uint8_t *)rest + rest_bytes - sizeof length, &length, sizeof length);
        memcpy(place, head, head_bytes);
        memcpy(place + head_bytes, rest, rest_bytes);
        memcpy(place + head_bytes + rest_bytes, v.buf, (size_t)v.len);
    }
    PyBuffer_Release(&v);
    if (!place) return answer;
    ring_publish(r, need);
    Py_RETURN_TRUE;
}

/* The head of every compact envelope, as in codec/compact.py: root offset, vtable, distance back to it. */
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
static PyObject *ring_push_fields(PyObject *self, PyObject *const *args, Py_ssize_t n) {
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
        return ring_push_headed(r, args[2], COMPACT_HEAD, sizeof COMPACT_HEAD, &rest, sizeof rest);
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
    return ring_push_headed(r, args[2], IMAGE_HEAD, sizeof IMAGE_HEAD, &rest, sizeof rest);
}

/* woke(): True when the reader was parked as the last record came; said once. */
static PyObject *ring_woke(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    int woke = r->woke;
    r->woke = 0;
    return PyBool_FromLong(woke);
}

static PyObject *ring_free(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    uint32_t read;
    int64_t room = ring_room(r, &read);
    return room < 0 ? ring_refuse(r, REFUSE_POSITIONS, r->position, read, r->size, 0) : PyLong_FromLongLong(room);
}

/* One piece of waiting for room, without the GIL: 1 there is room (or an impossible position), 0 not yet, PEER_GONE. */
static int room_piece(Ring *r, int64_t need, int pidfd, int64_t until) {
    uint32_t read;
    int64_t start = now_ns(), t = start, end = start + ROOM_PIECE_NS < until ? start + ROOM_PIECE_NS : until;
    int64_t pause_end = r->strategy == WAIT_BLOCK ? start : start + PAUSE_NS;
    int64_t yield_end = r->strategy == WAIT_SPIN ? end : r->strategy == WAIT_BLOCK ? start : start + YIELD_NS;
    do {
        int64_t room = ring_room(r, &read);
        if (room < 0 || room >= need) return 1;
        if (__atomic_load_n(&r->stops, __ATOMIC_ACQUIRE)) return 0;
        if (t < pause_end) {
            relax();
        } else if (t < yield_end) {
            sched_yield();
        } else {
            __atomic_store_n(r->room, 1, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            room = ring_room(r, &read);
            if (room >= 0 && room < need) futex_wait(r->room, end - t < ROOM_NAP_NS ? end - t : ROOM_NAP_NS);
            __atomic_store_n(r->room, 0, __ATOMIC_RELAXED);
        }
        t = now_ns();
    } while (t < end);
    int64_t room = ring_room(r, &read);
    if (room < 0 || room >= need) return 1;
    return gone(pidfd) ? PEER_GONE : 0;
}

/* wait_room(length, pidfd, timeout_ns): 1, TIMED_OUT (also after stop()) or PEER_GONE */
static PyObject *ring_wait_room(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    if (n != 3) return PyErr_Format(PyExc_TypeError, "wait_room(length, pidfd, timeout_ns)");
    long long length = PyLong_AsLongLong(args[0]), pidfd = PyLong_AsLongLong(args[1]), ns = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (length < 1 || length > ring_largest(r)) return refuse(REFUSE_OUTGOING, (uint64_t)length, r->size, 0, 0);
    uint32_t skipped, read;
    int64_t need = ring_need(r, (uint32_t)length, &skipped), until = later(now_ns(), ns);
    for (;;) {
        int64_t room = ring_room(r, &read);
        if (room < 0) return ring_refuse(r, REFUSE_POSITIONS, r->position, read, r->size, 0);
        if (room >= need) return PyLong_FromLong(1);
        if (__atomic_load_n(&r->stops, __ATOMIC_ACQUIRE) || now_ns() >= until) return PyLong_FromLong(TIMED_OUT);
        PyThreadState *thread = PyEval_SaveThread();
        int result = room_piece(r, need, (int)pidfd, until);
        PyEval_RestoreThread(thread);
        if (result == PEER_GONE) return PyLong_FromLong(PEER_GONE);
        if (!result && PyErr_CheckSignals()) return NULL;
    }
}

static PyObject *ring_stop(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    __atomic_store_n(&r->stops, 1, __ATOMIC_RELEASE);
    r->bell = -1; /* it may be closed from now on */
    Py_RETURN_NONE;
}

/* ---- the reading end -------------------------------------------------------------------------------------------- */

static inline uint32_t ring_length(const Ring *r, uint32_t index) {
    return __atomic_load_n((const uint32_t *)(r->data + index), __ATOMIC_RELAXED);
}

/* Let the writer have everything before `position`, and wake it when it waits for that. */
static inline void ring_give_back(Ring *r, uint32_t position) {
    r->position = position;
    __atomic_store_n(r->read, position, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(r->room, __ATOMIC_RELAXED) == 1) wake(r->room);
}

/* Give back what was copied and return it; an error when the ring was lost while it was copied. */
static PyObject *ring_taken(Ring *r, uint32_t position, PyObject *copied) {
    ring_give_back(r, position);
    if (!is_lost(r->data)) return copied;
    Py_XDECREF(copied);
    return ring_lost(r);
}

/* The oldest record: its bytes, its length, and where the reader stands once it is taken. NULL when there is none, or with
 * an error for what no writer may produce. */
static const uint8_t *ring_oldest(Ring *r, uint32_t *length, uint32_t *after) {
    uint32_t write = load32(r->write), position = r->position, size = r->size;
    if (write == position) return NULL;
    uint32_t published = ring_distance(r, write, position);
    if (published > size) {
        ring_refuse(r, REFUSE_POSITIONS, write, position, size, 0);
        return NULL;
    }
    uint32_t index = position & (size - 1);
    *length = ring_length(r, index);
    if (*length == RING_SKIP) {
        uint32_t skipped = size - index;
        if (skipped >= size / 4 || skipped > published) {
            ring_refuse(r, REFUSE_SKIP, index, published, size, 0);
            return NULL;
        }
        position += skipped;
        published -= skipped;
        if (!published) { /* a writer may publish the skip ahead of the record that needs it */
            ring_give_back(r, position);
            return NULL;
        }
        index = 0;
        *length = ring_length(r, 0);
    }
    uint64_t stride = ((uint64_t)*length + 4 + 7) & ~(uint64_t)7;
    if (!*length || *length > ring_largest(r) || stride > published || index + stride > size) {
        ring_refuse(r, REFUSE_LENGTH, *length, index, published, size);
        return NULL;
    }
    *after = position + (uint32_t)stride;
    return r->data + index + 4;
}

static PyObject *ring_pop(PyObject *self, PyObject *unused) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    uint32_t length, after;
    const uint8_t *start = ring_oldest(r, &length, &after);
    if (!start) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *record = PyBytes_FromStringAndSize((const char *)start, (Py_ssize_t)length);
    return record ? ring_taken(r, after, record) : NULL;
}

/* True for a compact envelope, with all that is behind its head in `rest`: the peer may change it under us. */
static inline int compact_rest(const uint8_t *start, uint32_t length, CompactRest *rest) {
    if (length < COMPACT_BYTES || memcmp(start, COMPACT_HEAD, sizeof COMPACT_HEAD)) return 0;
    memcpy(rest, start + sizeof COMPACT_HEAD, sizeof *rest);
    return rest->offset == COMPACT_PAYLOAD && rest->length == length - COMPACT_BYTES && rest->kind < KINDS;
}

/* The same of an image envelope. */
static inline int image_rest(const uint8_t *start, uint32_t length, ImageRest *rest) {
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

/* What push takes of a compact or image envelope, in its order; the bytes of any other record. */
static PyObject *record_fields(const uint8_t *start, uint32_t length) {
    CompactRest c;
    ImageRest i;
    if (compact_rest(start, length, &c)) {
        PyObject *fields[7] = {PyLong_FromUnsignedLong(c.kind),
                               PyLong_FromUnsignedLongLong(c.correlation_id),
                               PyBytes_FromStringAndSize((const char *)start + COMPACT_BYTES, (Py_ssize_t)c.length),
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
                               PyBytes_FromStringAndSize((const char *)start + IMAGE_BYTES, (Py_ssize_t)i.length),
                               PyLong_FromLong(0),
                               PyLong_FromLong(0),
                               PyLong_FromUnsignedLong(i.dropped),
                               tuple_of(image, 4)};
        return tuple_of(fields, 7);
    }
    return PyBytes_FromStringAndSize((const char *)start, (Py_ssize_t)length);
}

/* The compact stream items of one call that lie behind each other, from the oldest record on and up to `limit`, as
 * (correlation_id, [payload, ...]). NULL: there is no second one, or with an error. The reader then stands where it
 * stood; nothing is given back in either case. */
static PyObject *ring_items(Ring *r, long limit) {
    uint32_t length, after, begin = r->position;
    uint64_t call = 0;
    PyObject *items = NULL;
    const uint8_t *start;
    for (long n = 0; n < limit && (start = ring_oldest(r, &length, &after)); n++) {
        CompactRest rest;
        if (!compact_rest(start, length, &rest) || rest.kind != STREAM_ITEM || (n && rest.correlation_id != call)) break;
        if (!n) {
            call = rest.correlation_id;
            if (load32(r->write) == after) return NULL;
            if (!(items = PyList_New(0))) return NULL;
        }
        PyObject *payload = PyBytes_FromStringAndSize((const char *)start + COMPACT_BYTES, (Py_ssize_t)rest.length);
        int failed = !payload || PyList_Append(items, payload);
        Py_XDECREF(payload);
        if (failed) {
            Py_DECREF(items);
            r->position = begin;
            return NULL;
        }
        r->position = after;
    }
    if (!items) return NULL;
    PyErr_Clear(); /* a bad record behind them: it is found again once these are read */
    PyObject *fields[2] = {PyLong_FromUnsignedLongLong(call), items};
    PyObject *run = tuple_of(fields, 2);
    if (!run) r->position = begin;
    return run;
}

/* pop_batch(limit): the oldest record as push takes it, as its bytes where it is no such envelope, None when there is
 * none; or, up to `limit` of them, the stream items of one call together. */
static PyObject *ring_pop_batch(PyObject *self, PyObject *limit) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    long most = PyLong_AsLong(limit);
    if (most == -1 && PyErr_Occurred()) return NULL;
    PyObject *run = most > 1 ? ring_items(r, most) : NULL;
    if (run) return ring_taken(r, r->position, run);
    if (PyErr_Occurred()) return NULL;
    uint32_t length, after;
    const uint8_t *start = ring_oldest(r, &length, &after);
    if (!start) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *fields = record_fields(start, length);
    return fields ? ring_taken(r, after, fields) : NULL;
}

static PyObject *ring_pending(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    uint32_t write = load32(r->write), distance = ring_distance(r, write, r->position);
    return distance > r->size ? ring_refuse(r, REFUSE_POSITIONS, write, r->position, r->size, 0)
                              : PyLong_FromUnsignedLong(distance);
}

static PyObject *ring_habit(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromLong(r->habit) : NULL;
}

static inline int ring_written(const Ring *r) { return load32(r->write) != r->position; }

static PyObject *ring_ready(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    return r ? PyBool_FromLong(ring_written(r)) : NULL;
}

/* wait(pidfd, timeout_ns, crowded=False, rested=False): 1 there is something to pop, 0 interrupted, TIMED_OUT or PEER_GONE. Parks on the futex. */
static PyObject *ring_wait(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    if (n < 2 || n > 4 || !r->park)
        return PyErr_Format(PyExc_TypeError, "wait(pidfd, timeout_ns, crowded, rested), of an end with a park word");
    long long pidfd = PyLong_AsLongLong(args[0]), ns = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    int crowded = n > 2 && PyObject_IsTrue(args[2]) && r->strategy == WAIT_ADAPTIVE;
    Watch w = {&r->stops, 0, r->write, r->position, NULL};
    Waiter me = {crowded ? WAIT_CROWDED : r->strategy, r->wakes, (int)pidfd, r->park, r->habit};
    int result = wait_change(&w, &me, ns, n > 3 && PyObject_IsTrue(args[3]));
    r->habit = me.habit;
    __atomic_exchange_n(&r->stops, 0, __ATOMIC_ACQ_REL);
    if (result == 1 && !ring_written(r)) result = 0;
    return as_result(result);
}

static PyObject *ring_interrupt(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    __atomic_store_n(&r->stops, 1, __ATOMIC_RELEASE);
    if (r->park) wake(r->park);
    Py_RETURN_NONE;
}

/* arm(): True when something is written; else the writer rings the bell with the next record. */
static PyObject *ring_arm(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    if (!r->park) return PyErr_Format(PyExc_TypeError, "arm() of an end without a park word");
    __atomic_store_n(r->park, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!ring_written(r)) Py_RETURN_FALSE;
    __atomic_store_n(r->park, 0, __ATOMIC_RELAXED);
    Py_RETURN_TRUE;
}

static PyObject *ring_disarm(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    if (r->park) __atomic_store_n(r->park, 0, __ATOMIC_RELAXED);
    Py_RETURN_NONE;
}

static PyMethodDef writer_methods[] = {
    {"try_push", ring_push, METH_O, "Append the record and wake the reader; False when it does not fit now."},
    {"push", (PyCFunction)(void (*)(void))ring_push_fields, METH_FASTCALL, "Append a compact or image envelope."},
    {"wait_room", (PyCFunction)(void (*)(void))ring_wait_room, METH_FASTCALL, "Wait until a record of a length fits."},
    {"woke", ring_woke, METH_NOARGS, "True when the last record found the reader parked; said once."},
    {"shut", ring_shut, METH_O, "Refuse every record from now on, with the error that a function returns."},
    {"stop", ring_stop, METH_NOARGS, "End a wait for room; ring no bell any more."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef writer_getset[] = {{"size", ring_size, NULL, "Data bytes.", NULL},
                                      {"position", ring_position, NULL, "How far this side has written.", NULL},
                                      {"free", ring_free, NULL, "Bytes not in use.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef reader_methods[] = {
    {"try_pop", ring_pop, METH_NOARGS, "Return the oldest record, None when there is none."},
    {"pop_batch", ring_pop_batch, METH_O, "Return the oldest record as its fields, or some stream items of one call."},
    {"shut", ring_shut, METH_O, "Refuse to pop from now on, with the error that a function returns."},
    {"ready", ring_ready, METH_NOARGS, "True when something was written and not popped."},
    {"wait", (PyCFunction)(void (*)(void))ring_wait, METH_FASTCALL, "Wait for a record."},
    {"interrupt", ring_interrupt, METH_NOARGS, "Make wait return."},
    {"arm", ring_arm, METH_NOARGS, "Have the bell rung with the next record; True when there is one."},
    {"disarm", ring_disarm, METH_NOARGS, "No bell any more."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef reader_getset[] = {{"size", ring_size, NULL, "Data bytes.", NULL},
                                      {"position", ring_position, NULL, "How far this side has read.", NULL},
                                      {"pending", ring_pending, NULL, "Bytes written and not read.", NULL},
                                      {"habit", ring_habit, NULL, "What its waits have taught it; see habit.py.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};

static int writer_init(PyObject *self, PyObject *args, PyObject *kwargs) { return ring_init(self, args, kwargs, 1); }
static int reader_init(PyObject *self, PyObject *args, PyObject *kwargs) { return ring_init(self, args, kwargs, 0); }

static PyType_Slot writer_slots[] = {{Py_tp_init, writer_init},
                                     {Py_tp_dealloc, ring_dealloc},
                                     {Py_tp_traverse, ring_traverse},
                                     {Py_tp_clear, ring_clear},
                                     {Py_tp_methods, writer_methods},
                                     {Py_tp_getset, writer_getset},
                                     {Py_tp_doc, "The writing end of a ring; see ends.py."},
                                     {0, NULL}};
static PyType_Spec writer_spec = {"lucky_transport.shm._atomics.RingWriter", sizeof(Ring), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  writer_slots};
static PyType_Slot reader_slots[] = {{Py_tp_init, reader_init},
                                     {Py_tp_dealloc, ring_dealloc},
                                     {Py_tp_traverse, ring_traverse},
                                     {Py_tp_clear, ring_clear},
                                     {Py_tp_methods, reader_methods},
                                     {Py_tp_getset, reader_getset},
                                     {Py_tp_doc, "The reading end of a ring; see ends.py."},
                                     {0, NULL}};
static PyType_Spec reader_spec = {"lucky_transport.shm._atomics.RingReader", sizeof(Ring), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  reader_slots};

/* ---- many readers at once ---------------------------------------------------------------------------------------- */

#define SPIN_RINGS 64

static int any_written(Ring *const *rings, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (ring_written(rings[i])) return 1;
    return 0;
}

/* spin(readers, strategy, longest_ns): look at the readers of a tuple for that long (at most SPIN_SLICE_NS; WAIT_CROWDED: YIELD_NS, WAIT_BLOCK: once),
 * without the GIL after the first looks; True when one has something to pop. */
static PyObject *ring_spin(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyTuple_Check(args[0])) return PyErr_Format(PyExc_TypeError, "spin(readers, strategy, longest_ns)");
    long long strategy = PyLong_AsLongLong(args[1]), ns = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) return NULL;
    Ring *few[SPIN_RINGS], **rings = few;
    Py_ssize_t count = PyTuple_Size(args[0]);
    if (count > SPIN_RINGS && !(rings = PyMem_Malloc((size_t)count * sizeof *rings))) return PyErr_NoMemory();
    PyObject *kind = PyObject_GetAttrString(module, "RingReader");
    int fit = kind != NULL;
    for (Py_ssize_t i = 0; fit && i < count; i++) {
        rings[i] = (Ring *)PyTuple_GetItem(args[0], i);
        fit = PyObject_TypeCheck((PyObject *)rings[i], (PyTypeObject *)kind) && rings[i]->write;
    }
    Py_XDECREF(kind);
    int found = 0;
    if (fit) {
        int once = strategy == WAIT_BLOCK || strategy == WAIT_CROWDED || !ns;
        int looks = once ? 1 : GIL_LOOKS / (int)(count < GIL_LOOKS ? count + 1 : GIL_LOOKS) + 1;
        while (!(found = any_written(rings, count)) && --looks) relax();
        if (!found && strategy != WAIT_BLOCK && ns > 0) {
            Py_BEGIN_ALLOW_THREADS
            int64_t start = now_ns(), t = start, pause_end = strategy == WAIT_CROWDED ? start : start + PAUSE_NS;
            int64_t longest = strategy == WAIT_CROWDED ? YIELD_NS : SPIN_SLICE_NS, end = start + (ns < longest ? ns : longest);
            sched_yield(); /* the peer may share our core and be about to answer */
            while (t < end && !(found = any_written(rings, count))) {
                for (int i = 0; i < PAUSES; i++) relax();
                if (t >= pause_end) sched_yield();
                t = now_ns();
            }
            Py_END_ALLOW_THREADS
        }
    }
    if (rings != few) PyMem_Free(rings);
    if (!fit) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "spin() needs a tuple of RingReaders");
        return NULL;
    }
    return PyBool_FromLong(found);
}
