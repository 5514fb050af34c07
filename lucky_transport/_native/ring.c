/* What both ends of a ring do alike; see ring.h. */
#include "ring.h"

#define SHUT_POLL_NS 50000

PyObject *refuse(int kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    PyObject *module = PyImport_ImportModule("lucky_transport.shm.ring");
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
PyObject *ring_lost(const Ring *r) {
    PyObject *error = PyObject_CallMethod(r->view.obj, "error", NULL);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

/* Refuse what is in the ring, or say that it is gone. */
PyObject *ring_refuse(const Ring *r, int kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return is_lost(r->data) ? ring_lost(r) : refuse(kind, a, b, c, d);
}

/* RingWriter or RingReader(memory, offset, size, /, park=-1, socket=-1, strategy=WAIT_ADAPTIVE, peer=PEER_WAKES,
 * empty=False, arena=0, arena_bytes=0, backed=size) */
int ring_init(PyObject *self, PyObject *args, PyObject *kwargs, int writes) {
    Ring *r = (Ring *)self;
    PyObject *memory;
    unsigned long long offset, arena = 0, arena_bytes = 0;
    unsigned int size, backed = RING_LARGEST;
    long long park = -1;
    int socket = -1, strategy = WAIT_ADAPTIVE, peer = PEER_WAKES, empty = 0;
    static char *names[] = {"", "", "", "park", "socket", "strategy", "peer", "empty", "arena", "arena_bytes", "backed", NULL};
    if (first_init(self) || !PyArg_ParseTupleAndKeywords(args, kwargs, "OKI|LiiipKKI", names, &memory, &offset, &size,
                                                         &park, &socket, &strategy, &peer, &empty, &arena, &arena_bytes,
                                                         &backed))
        return -1;
    if (size < RING_SMALLEST || size > RING_LARGEST || size & (size - 1)) {
        PyErr_Format(PyExc_ValueError, "a ring of %u data bytes, expected a power of two from 64", size);
        return -1;
    }
    if (PyObject_GetBuffer(memory, &r->view, PyBUF_WRITABLE)) return -1;
    uint8_t *start = at(&r->view, offset, (unsigned long long)RING_HEAD + size, 8);
    if (!start || (park >= 0 && !(r->park = at(&r->view, (unsigned long long)park, 8, 4)))) return -1;
    r->write = (uint32_t *)start;
    r->read = (uint32_t *)(start + RING_READ);
    r->freed = (uint32_t *)(start + RING_FREED);
    r->data = start + RING_HEAD;
    r->size = size;
    r->backed = backed < size ? backed : size;
    r->socket = socket;
    r->budget.strategy = strategy;
    r->wakes = peer & PEER_WAKES;
    if (arena_init(r, writes, arena, arena_bytes)) return -1;
    if (empty) { /* what stands there is not read back: a peer that left may still write into it */
        r->position = 0;
        __atomic_store_n(r->write, 0, __ATOMIC_RELEASE);
        __atomic_store_n(r->read, 0, __ATOMIC_RELEASE);
        __atomic_store_n(r->freed, 0, __ATOMIC_RELEASE);
        return 0;
    }
    uint32_t write = lucky_load32(r->write), read = lucky_load32(r->read);
    r->position = writes ? write : read;
    if (lucky_ring_distance(write, read) > size) {
        refuse(REFUSE_POSITIONS, write, read, size, 0);
        return -1;
    }
    return 0;
}

Ring *open_ring_of(PyObject *self) {
    Ring *r = ring_of(self);
    if (!r || !r->why) return r;
    PyObject *error = PyObject_CallNoArgs(r->why);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

/* shut(why): refuse every record from now on, with the error that why() returns, and wait until nobody copies: the memory
 * may be given to others then. In a forked child nobody does. */
PyObject *ring_shut(PyObject *self, PyObject *why) {
    Ring *r = ring_of(self);
    if (!r) return NULL;
    PyObject *before = r->why;
    r->why = Py_NewRef(why);
    Py_XDECREF(before);
    while (__atomic_load_n(&r->busy, __ATOMIC_ACQUIRE) == getpid()) {
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&(struct timespec){0, SHUT_POLL_NS}, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

int ring_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Ring *)self)->why);
    return 0;
}

int ring_clear(PyObject *self) {
    Py_CLEAR(((Ring *)self)->why);
    return 0;
}

void ring_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    arena_dealloc((Ring *)self); /* first: what goes is found by no other end while `why` goes */
    ring_clear(self);
    mapped_dealloc(self);
}

PyObject *ring_size(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromUnsignedLong(r->size) : NULL;
}

PyObject *ring_position(PyObject *self, void *closure) {
    Ring *r = ring_of(self);
    return r ? PyLong_FromUnsignedLong(r->position) : NULL;
}
