/* The reading end of a ring, and the look at many of them. */
#include "envelope.h"
#include "faults.h"

static inline uint32_t ring_length(const Ring *r, uint32_t index) {
    return __atomic_load_n((const uint32_t *)(r->data + index), __ATOMIC_RELAXED);
}

_Thread_local int reads_rings;

/* Let the writer have everything before `position`, and wake it when it waits for that. */
static inline void ring_give_back(Ring *r, uint32_t position) {
    reads_rings = 1;
    r->position = position;
    LUCKY_FAULT("ring.taken");
    __atomic_store_n(r->read, position, __ATOMIC_RELEASE);
    LUCKY_FAULT("ring.given_back");
    lucky_wake(r->freed);
}

PyObject *ring_taken(Ring *r, uint32_t position, PyObject *copied) {
    int is_open = open_ring_of((PyObject *)r) != NULL; /* it may have been shut while this was copied */
    if (is_open) ring_give_back(r, position);
    if (is_open && !is_lost(r->data)) return copied;
    Py_XDECREF(copied);
    return is_open ? ring_lost(r) : NULL;
}

/* Find the slab of a reference at `index`, as far as it can be believed. */
static int ring_slab(Ring *r, uint32_t index, Record *record) {
    const Arena *a = &r->arena;
    Reference said;
    memcpy(&said, r->data + index, sizeof said);
    if (!said.length || said.begin > a->size || said.length > a->size - said.begin) {
        ring_refuse(r, REFUSE_REFERENCE, index, said.begin, said.length, a->size);
        return 0;
    }
    record->start = a->data + said.begin;
    record->length = said.length;
    record->call = said.call;
    record->message = said.message;
    return 1;
}

int ring_oldest(Ring *r, Record *record) {
    uint32_t write = lucky_load32(r->write), position = r->position, size = r->size;
    if (write == position || r->busy) return 0;
    uint32_t published = lucky_ring_distance(write, position);
    if (published > size) {
        ring_refuse(r, REFUSE_POSITIONS, write, position, size, 0);
        return 0;
    }
    uint32_t index = position & (size - 1), length = ring_length(r, index);
    if (length == RING_SKIP) {
        uint32_t skipped = size - index;
        if (skipped >= size / 4 || skipped > published) {
            ring_refuse(r, REFUSE_SKIP, index, published, size, 0);
            return 0;
        }
        position += skipped;
        published -= skipped;
        if (!published) { /* a writer may publish the skip ahead of the record that needs it */
            ring_give_back(r, position);
            return 0;
        }
        index = 0;
        length = ring_length(r, 0);
    }
    int is_reference = length == RING_REFERENCE && r->arena.size;
    if (is_reference) length = REFERENCE_BYTES;
    uint64_t stride = ((uint64_t)length + 4 + 7) & ~(uint64_t)7;
    if (!length || length > ring_largest(r) || stride > published || index + stride > size) {
        ring_refuse(r, REFUSE_LENGTH, length, index, published, size);
        return 0;
    }
    record->after = position + (uint32_t)stride;
    if (is_reference) return ring_slab(r, index, record);
    record->start = r->data + index + 4;
    record->length = length;
    record->message = 0;
    return 1;
}

static PyObject *ring_pop(PyObject *self, PyObject *unused) {
    Ring *r = open_ring_of(self);
    if (!r) return NULL;
    Record record;
    if (!ring_oldest(r, &record)) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *bytes = copy_out(r, record.start, record.length);
    return bytes ? ring_taken(r, record.after, bytes) : NULL;
}

/* limit(bytes): leave messages in the arena that are longer. */
static PyObject *ring_limit(PyObject *self, PyObject *bytes) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    unsigned long long longest = PyLong_AsUnsignedLongLong(bytes);
    if (PyErr_Occurred()) return NULL;
    r->arena.longest = longest;
    Py_RETURN_NONE;
}

static PyObject *ring_pending(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    uint32_t write = lucky_load32(r->write), distance = lucky_ring_distance(write, r->position);
    return distance > r->size ? ring_refuse(r, REFUSE_POSITIONS, write, r->position, r->size, 0)
                              : PyLong_FromUnsignedLong(distance);
}

static PyObject *ring_spin_ns(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    if (r && r->budget.strategy == WAIT_ADAPTIVE && r->park && lucky_shares_cpu(r->park)) return PyLong_FromLong(0);
    return r ? spin_budget_ns(&r->budget) : NULL;
}

static inline int ring_written(const Ring *r) { return lucky_load32(r->write) != r->position; }

static PyObject *ring_ready(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    return r ? PyBool_FromLong(ring_written(r)) : NULL;
}

/* wait(timeout_ns, oversubscribed=False, skip_spin=False): 1 there is something to pop, 0 interrupted, or TIMED_OUT. Parks
 * on the futex. */
static PyObject *ring_wait(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    if (n < 1 || n > 3 || !r->park)
        return PyErr_Format(PyExc_TypeError, "wait(timeout_ns, oversubscribed, skip_spin), of an end with a park word");
    long long ns = PyLong_AsLongLong(args[0]);
    if (PyErr_Occurred()) return NULL;
    int oversubscribed = n > 1 && PyObject_IsTrue(args[1]) && r->budget.strategy == WAIT_ADAPTIVE;
    lucky_watch w = {&r->stops, 0, r->write, r->position, NULL};
    Waiter me = {.budget = r->budget, .wakes = r->wakes, .park = r->park, .lock_fd = -1};
    if (oversubscribed) me.budget.strategy = WAIT_OVERSUBSCRIBED;
    int result = wait_change(&w, &me, ns, n > 2 && PyObject_IsTrue(args[2]));
    me.budget.strategy = r->budget.strategy;
    r->budget = me.budget;
    uint64_t stopped = __atomic_exchange_n(&r->stops, 0, __ATOMIC_ACQ_REL); /* perhaps as the last slice ended */
    if (result == 1 || (result == TIMED_OUT && stopped)) result = ring_written(r);
    return as_result(result);
}

static PyObject *ring_interrupt(PyObject *self, PyObject *unused) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    __atomic_store_n(&r->stops, 1, __ATOMIC_RELEASE);
    if (r->park) lucky_wake(r->park);
    Py_RETURN_NONE;
}

/* arm(): True when something is written; else the writer notifies the socket with the next record. */
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

static PyMethodDef reader_methods[] = {
    {"try_pop", ring_pop, METH_NOARGS, "Return the oldest record, None when there is none."},
    {"pop_batch", ring_pop_batch, METH_O, "Return the oldest record as its fields, or some stream items of one call."},
    {"limit", ring_limit, METH_O, "Leave messages in the arena that have more bytes."},
    {"shut", ring_shut, METH_O, "Refuse to pop from now on, with the error that a function returns."},
    {"ready", ring_ready, METH_NOARGS, "True when something was written and not popped."},
    {"wait", (PyCFunction)(void (*)(void))ring_wait, METH_FASTCALL, "Wait for a record."},
    {"interrupt", ring_interrupt, METH_NOARGS, "Make wait return."},
    {"arm", ring_arm, METH_NOARGS, "Have the socket notified with the next record; True when there is one."},
    {"disarm", ring_disarm, METH_NOARGS, "Withdraw what arm asked for."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef reader_getset[] = {{"size", ring_size, NULL, "Data bytes.", NULL},
                                      {"position", ring_position, NULL, "How far this side has read.", NULL},
                                      {"pending", ring_pending, NULL, "Bytes written and not read.", NULL},
                                      {"spin_ns", ring_spin_ns, NULL, "How long its next wait looks.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};

static int reader_init(PyObject *self, PyObject *args, PyObject *kwargs) { return ring_init(self, args, kwargs, 0); }

static PyType_Slot reader_slots[] = {{Py_tp_init, reader_init},
                                     {Py_tp_dealloc, ring_dealloc},
                                     {Py_tp_traverse, ring_traverse},
                                     {Py_tp_clear, ring_clear},
                                     {Py_tp_methods, reader_methods},
                                     {Py_tp_getset, reader_getset},
                                     {0, NULL}};
PyType_Spec ring_reader_spec = {"lucky_transport._native.RingReader", sizeof(Ring), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, reader_slots};

/* ---- many readers at once ---------------------------------------------------------------------------------------- */

#define SPIN_RINGS 64

static int any_written(Ring *const *rings, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (ring_written(rings[i])) return 1;
    return 0;
}

/* spin(readers, strategy, longest_ns, oversubscribed=False): look at the readers of a tuple for that long (at most
 * SPIN_SLICE_NS; WAIT_OVERSUBSCRIBED: YIELD_NS, WAIT_BLOCK: once), without the GIL after the first looks; True when one has
 * something to pop. */
static PyObject *ring_spin(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    if (n < 3 || n > 4 || !PyTuple_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "spin(readers, strategy, longest_ns, oversubscribed)");
    long long strategy = PyLong_AsLongLong(args[1]), ns = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (strategy == WAIT_ADAPTIVE && n == 4 && PyObject_IsTrue(args[3])) strategy = WAIT_OVERSUBSCRIBED;
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
        int once = strategy == WAIT_BLOCK || strategy == WAIT_OVERSUBSCRIBED || !ns;
        int looks = once ? 1 : GIL_LOOKS / (int)(count < GIL_LOOKS ? count + 1 : GIL_LOOKS) + 1;
        while (!(found = any_written(rings, count)) && --looks) lucky_pause();
        if (!found && strategy != WAIT_BLOCK && ns > 0) {
            Py_BEGIN_ALLOW_THREADS
            int64_t start = lucky_now_ns(), t = start, pause_end = start + (strategy == WAIT_OVERSUBSCRIBED ? 0 : PAUSE_NS);
            int64_t longest = strategy == WAIT_OVERSUBSCRIBED ? YIELD_NS : SPIN_SLICE_NS;
            int64_t end = start + (ns < longest ? ns : longest);
            sched_yield(); /* the peer may share our core and be about to answer */
            while (t < end && !(found = any_written(rings, count))) {
                for (int i = 0; i < PAUSES; i++) lucky_pause();
                if (t >= pause_end) sched_yield();
                t = lucky_now_ns();
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

PyMethodDef ring_methods[] = {
    {"spin", (PyCFunction)(void (*)(void))ring_spin, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
