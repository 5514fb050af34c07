/* The writing end of a ring. */
#include "envelope.h"
#include "faults.h"

#include <sys/socket.h>

/* Wake a reader that is parked on `park`: 1 when it was. */
static inline int ring_wake(uint32_t *park, int socket) {
    if (socket < 0) return lucky_wake(park);
    if (!lucky_unpark(park)) return 0;
    ssize_t sent = send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* one that is full is readable already */
    (void)sent;
    return 1;
}

/* Free bytes; -1 when the reader's position cannot be, `read` is then what it was. */
static inline int64_t ring_free_bytes(const Ring *r, uint32_t *read) {
    *read = lucky_load32(r->read);
    uint32_t used = lucky_ring_distance(r->position, *read);
    return used > r->size ? -1 : (int64_t)(r->size - used);
}

/* Bytes that a record of `length` takes now: its stride, and what has to be skipped before it. */
static inline uint32_t ring_need(const Ring *r, uint32_t length, uint32_t *skipped) {
    uint32_t stride = (4 + length + 7) & ~7u, index = r->position & (r->size - 1);
    *skipped = (uint64_t)index + stride > r->size ? r->size - index : 0;
    return *skipped + stride;
}

/* Have memory for the first `end` bytes of the data, by the step: 0 with an error where there is none. Only sealed files
 * begin without: none is cut, so nothing but memory can be missing. */
static int ring_back(Ring *r, uint32_t end) {
    if (end <= r->backed) return 1;
    uint32_t step = (end + RING_STEP - 1) & ~(RING_STEP - 1u);
    if (step > r->size) step = r->size;
    if (!populate(r->data + r->backed, r->data + step)) {
        ring_refuse(r, REFUSE_MEMORY, step - r->backed, r->size, 0, 0);
        return 0;
    }
    r->backed = step;
    return 1;
}

uint8_t *ring_reserve(Ring *r, uint64_t length, uint32_t *need, PyObject **answer) {
    *answer = NULL;
    if (length == 0 || length > ring_largest(r)) {
        refuse(REFUSE_OUTGOING, length, r->size, r->arena.size, 0);
        return NULL;
    }
    uint32_t skipped, read;
    *need = ring_need(r, (uint32_t)length, &skipped);
    int64_t free = r->busy ? 0 : ring_free_bytes(r, &read); /* nothing passes the slab that is being written */
    if (r->arena.backed) arena_note_short(r);
    if (free < (int64_t)*need) {
        if (free < 0) ring_refuse(r, REFUSE_POSITIONS, r->position, read, r->size, 0);
        else *answer = Py_NewRef(Py_False);
        return NULL;
    }
    uint32_t index = r->position & (r->size - 1);
    if (!ring_back(r, index + (skipped ? 4 : *need))) return NULL;
    LUCKY_FAULT("ring.reserve");
    if (skipped) {
        *(uint32_t *)(r->data + index) = RING_SKIP;
        LUCKY_FAULT("ring.skip");
        index = 0;
    }
    *(uint32_t *)(r->data + index) = (uint32_t)length;
    LUCKY_FAULT("ring.length");
    return r->data + index + 4;
}

void ring_publish(Ring *r, uint32_t need) {
    r->position += need;
    LUCKY_FAULT("ring.payload");
    if (r->park) lucky_tell_cpu(r->park, reads_rings ? lucky_own_cpu() : 0);
    __atomic_store_n(r->write, r->position, __ATOMIC_RELEASE);
    LUCKY_FAULT("ring.published");
    r->woke_reader = r->park && ring_wake(r->park, r->socket);
}

PyObject *ring_push_pieces(Ring *r, const Piece *pieces, int count, uint64_t call, uint64_t message) {
    uint64_t length = 0;
    for (int i = 0; i < count; i++) length += pieces[i].size;
    tune_malloc(length);
    if (length > ring_largest(r) && r->arena.size) return arena_push(r, pieces, count, call, message);
    uint32_t need;
    PyObject *answer;
    uint8_t *place = ring_reserve(r, length, &need, &answer);
    if (!place) return answer;
    for (; --count; pieces++) {
        memcpy(place, pieces->start, pieces->size);
        place += pieces->size;
    }
    copy_halves(place, pieces->start, pieces->size, "ring.half");
    ring_publish(r, need);
    Py_RETURN_TRUE;
}

/* try_push(record, call=0, message_bytes=0): a record that is a list of two is both, one behind the other. */
static PyObject *ring_push(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    if (n < 1 || n > 3) return PyErr_Format(PyExc_TypeError, "try_push(record, call, message_bytes)");
    unsigned long long call = n > 1 ? PyLong_AsUnsignedLongLong(args[1]) : 0;
    unsigned long long message = n > 2 ? PyLong_AsUnsignedLongLong(args[2]) : 0;
    if (n > 1 && PyErr_Occurred()) return NULL;
    int count = PyList_Check(args[0]) ? 2 : 1, held = 0;
    if (count == 2 && PyList_Size(args[0]) != 2) return PyErr_Format(PyExc_TypeError, "a record of two pieces");
    Py_buffer views[2];
    Piece pieces[2];
    PyObject *answer = NULL;
    for (; held < count; held++) {
        if (PyObject_GetBuffer(count == 2 ? PyList_GetItem(args[0], held) : args[0], &views[held], PyBUF_SIMPLE)) break;
        pieces[held] = (Piece){views[held].buf, (size_t)views[held].len};
    }
    if (held == count) answer = ring_push_pieces(r, pieces, count, call, message);
    while (held) PyBuffer_Release(&views[--held]);
    return answer;
}

/* woke_reader(): True when the reader was parked as the last record came; said once. */
static PyObject *ring_woke_reader(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    int woke = r->woke_reader;
    r->woke_reader = 0;
    return PyBool_FromLong(woke);
}

static PyObject *ring_free_getter(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    uint32_t read;
    int64_t free = ring_free_bytes(r, &read);
    return free < 0 ? ring_refuse(r, REFUSE_POSITIONS, r->position, read, r->size, 0) : PyLong_FromLongLong(free);
}

/* Bytes of the longest record that fits. */
static PyObject *ring_largest_getter(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromUnsignedLongLong(arena_largest(r)) : NULL;
}

static PyObject *ring_backed_getter(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromUnsignedLongLong(r->arena.backed) : NULL;
}

/* One slice of it, without the GIL: 1 it fits (or the position is impossible), 0 not yet. A writer that waits
 * says so in the ring's third word, and the reader wakes it there. */
static int wait_writable_slice(Ring *r, int64_t need, int64_t until) {
    uint32_t read;
    int64_t start = lucky_now_ns(), t = start, end = start + FREED_SLICE_NS < until ? start + FREED_SLICE_NS : until;
    int64_t pause_end = r->budget.strategy == WAIT_BLOCK ? start : start + PAUSE_NS;
    int64_t yield_end = r->budget.strategy == WAIT_SPIN    ? end
                        : r->budget.strategy == WAIT_BLOCK ? start
                                                           : start + YIELD_NS;
    do {
        int64_t free = ring_free_bytes(r, &read);
        if (free < 0 || free >= need) return 1;
        if (__atomic_load_n(&r->stops, __ATOMIC_ACQUIRE)) return 0;
        if (t < pause_end) {
            lucky_pause();
        } else if (t < yield_end) {
            sched_yield();
        } else {
            __atomic_store_n(r->freed, 1, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            free = ring_free_bytes(r, &read);
            if (free >= 0 && free < need) lucky_futex_wait(r->freed, end - t < FREED_POLL_NS ? end - t : FREED_POLL_NS);
            __atomic_store_n(r->freed, 0, __ATOMIC_RELAXED);
        }
        t = lucky_now_ns();
    } while (t < end);
    int64_t free = ring_free_bytes(r, &read);
    return free < 0 || free >= need;
}

/* wait_writable(length, timeout_ns): 1 or TIMED_OUT (also after stop()) */
static PyObject *ring_wait_writable(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "wait_writable(length, timeout_ns)");
    long long length = PyLong_AsLongLong(args[0]), ns = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    uint64_t most = r->arena.size > ring_largest(r) ? r->arena.size : ring_largest(r);
    if (length < 1 || (uint64_t)length > most) return refuse(REFUSE_OUTGOING, (uint64_t)length, r->size, r->arena.size, 0);
    int is_slab = length > ring_largest(r);
    uint32_t skipped, read;
    int64_t need = ring_need(r, is_slab ? REFERENCE_BYTES : (uint32_t)length, &skipped), until = later(lucky_now_ns(), ns);
    if (is_slab && (uint64_t)length <= arena_largest(r)) {
        int64_t slab = arena_need(r, (uint64_t)length);
        if (slab > need) need = slab;
    }
    for (;;) {
        int64_t free = ring_free_bytes(r, &read);
        if (free < 0) return ring_refuse(r, REFUSE_POSITIONS, r->position, read, r->size, 0);
        if (free >= need) return PyLong_FromLong(1);
        if (__atomic_load_n(&r->stops, __ATOMIC_ACQUIRE) || lucky_now_ns() >= until) return PyLong_FromLong(TIMED_OUT);
        PyThreadState *thread = PyEval_SaveThread();
        int result = wait_writable_slice(r, need, until);
        PyEval_RestoreThread(thread);
        if (!result && PyErr_CheckSignals()) return NULL;
    }
}

static PyObject *ring_stop(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    __atomic_store_n(&r->stops, 1, __ATOMIC_RELEASE);
    r->socket = -1; /* it may be closed from now on */
    Py_RETURN_NONE;
}

static PyMethodDef writer_methods[] = {
    {"try_push", (PyCFunction)(void (*)(void))ring_push, METH_FASTCALL, "Append the record and wake the reader; False when it does not fit now."},
    {"push", (PyCFunction)(void (*)(void))ring_push_fields, METH_FASTCALL, "Append a compact or image envelope."},
    {"wait_writable", (PyCFunction)(void (*)(void))ring_wait_writable, METH_FASTCALL, "Wait until a record fits."},
    {"woke_reader", ring_woke_reader, METH_NOARGS, "True when the last record found the reader parked; said once."},
    {"shut", ring_shut, METH_O, "Refuse every record from now on, with the error that a function returns."},
    {"stop", ring_stop, METH_NOARGS, "End wait_writable; notify no socket any more."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef writer_getset[] = {{"size", ring_size, NULL, "Data bytes.", NULL},
                                      {"position", ring_position, NULL, "How far this side has written.", NULL},
                                      {"free", ring_free_getter, NULL, "Bytes not in use.", NULL},
                                      {"largest", ring_largest_getter, NULL, "Bytes of the longest record.", NULL},
                                      {"backed", ring_backed_getter, NULL, "Bytes of memory in the arena.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static int writer_init(PyObject *self, PyObject *args, PyObject *kwargs) { return ring_init(self, args, kwargs, 1); }

static PyType_Slot writer_slots[] = {{Py_tp_init, writer_init},
                                     {Py_tp_dealloc, ring_dealloc},
                                     {Py_tp_traverse, ring_traverse},
                                     {Py_tp_clear, ring_clear},
                                     {Py_tp_methods, writer_methods},
                                     {Py_tp_getset, writer_getset},
                                     {0, NULL}};
PyType_Spec ring_writer_spec = {"lucky_transport._native.RingWriter", sizeof(Ring), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, writer_slots};
