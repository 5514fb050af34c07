/* Single ordered accesses to the words of a mapping, timers, and a copy that holds no thread up. */
#include "wait.h"

#include <sys/timerfd.h>

static int view_of(PyObject *mapping, Py_buffer *view, int flags, unsigned long long offset, unsigned size,
                   void **place) {
    if (PyObject_GetBuffer(mapping, view, flags)) return -1;
    *place = at(view, offset, size, size);
    if (*place) return 0;
    PyBuffer_Release(view);
    return -1;
}

static int view_at(PyObject *mapping, Py_buffer *view, unsigned long long offset, unsigned size, void **place) {
    return view_of(mapping, view, PyBUF_WRITABLE, offset, size, place);
}

static PyObject *words_load64(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OK", &mapping, &offset) || view_of(mapping, &view, PyBUF_SIMPLE, offset, 8, &place))
        return NULL;
    uint64_t value = lucky_load64(place);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *words_store64(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset, value;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OKK", &mapping, &offset, &value) || view_at(mapping, &view, offset, 8, &place))
        return NULL;
    __atomic_store_n((uint64_t *)place, value, __ATOMIC_RELEASE);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *words_load32(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OK", &mapping, &offset) || view_of(mapping, &view, PyBUF_SIMPLE, offset, 4, &place))
        return NULL;
    uint32_t value = lucky_load32(place);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(value);
}

static PyObject *words_store32(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    unsigned int value;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OKI", &mapping, &offset, &value) || view_at(mapping, &view, offset, 4, &place))
        return NULL;
    __atomic_store_n((uint32_t *)place, value, __ATOMIC_RELEASE);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *words_wake(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OK", &mapping, &offset) || view_at(mapping, &view, offset, 4, &place)) return NULL;
    lucky_wake(place);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* wait32(mapping, offset, old, /, park, strategy, peer, timeout_ns): 1 or TIMED_OUT. */
static PyObject *words_wait32(PyObject *module, PyObject *args, PyObject *kwargs) {
    PyObject *mapping;
    unsigned long long offset, park_offset;
    unsigned int old;
    int strategy, peer;
    long long timeout;
    Py_buffer view;
    void *place, *park;
    static char *names[] = {"", "", "", "park", "strategy", "peer", "timeout_ns", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OKIKiiL", names, &mapping, &offset, &old, &park_offset, &strategy,
                                     &peer, &timeout) ||
        view_at(mapping, &view, offset, 4, &place))
        return NULL;
    int result = INTERRUPTED;
    if ((park = at(&view, park_offset, 8, 4))) {
        lucky_watch w = {NULL, 0, place, old, NULL};
        Waiter me = {.budget = {strategy, 0}, .wakes = peer & PEER_WAKES, .park = park, .lock_fd = -1};
        result = wait_change(&w, &me, timeout, 0);
    }
    PyBuffer_Release(&view);
    return as_result(result);
}

/* start_timer(descriptor, ns): -1 for a new one. */
static PyObject *start_timer(PyObject *module, PyObject *args) {
    int fd;
    long long ns;
    if (!PyArg_ParseTuple(args, "iL", &fd, &ns)) return NULL;
    struct itimerspec spec = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
    if (fd < 0) fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    return fd < 0 || timerfd_settime(fd, 0, &spec, NULL) ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(fd);
}

/* copied(view) -> bytes: other threads run meanwhile, which an image of some megabytes gives time for. */
static PyObject *copied(PyObject *self, PyObject *source) {
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)) return NULL;
    PyObject *copy = PyBytes_FromStringAndSize(NULL, view.len);
    char *to = copy ? PyBytes_AsString(copy) : NULL;
    if (to) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, view.buf, (size_t)view.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return copy;
}

PyMethodDef word_methods[] = {
    {"load32", words_load32, METH_VARARGS, NULL},
    {"store32", words_store32, METH_VARARGS, NULL},
    {"load64", words_load64, METH_VARARGS, NULL},
    {"store64", words_store64, METH_VARARGS, NULL},
    {"wake", words_wake, METH_VARARGS, NULL},
    {"wait32", (PyCFunction)(void (*)(void))words_wait32, METH_VARARGS | METH_KEYWORDS, NULL},
    {"start_timer", start_timer, METH_VARARGS, NULL},
    {"copied", copied, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
