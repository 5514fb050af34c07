/* What every file of the native module needs: Python's limited API, result codes, checked pointers into a mapping.
 *
 * The segment is never trusted: offsets and sizes come from the caller and are checked once against the mapping; a
 * counter that moves by anything but one is reported, not repaired.
 *
 * Limited API of Python 3.11 (the first with Py_buffer), Linux futexes, GCC/Clang atomics.
 */
#ifndef LUCKY_NATIVE_H
#define LUCKY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NATIVE_VERSION 20 /* atomics.py has the same number: a stale build counts as absent */

/* Results of send / recv / step and next; Result in fallback.py has the same numbers. */
enum {
    FRAME = 0, FRAME_ENDED = 1, FRAME_REFUSED = 2,
    TIMED_OUT = -1, PEER_GONE = -2, OUT_OF_ORDER = -3, NOT_TRIED = -10, UNFIT_ACTIONS = -11, NOT_FINITE = -12, UNFIT_CONTROL = -13,
    HAS_ACTIONS = 1, HAS_CONTROL = 2, HAS_COMMANDS = 4,
    RAISED = -100, /* a Python exception is set */
};

static inline PyObject *as_result(int result) { return result == RAISED ? NULL : PyLong_FromLong(result); }

/* Every native object starts so; `view` holds the mapping. */
typedef struct {
    PyObject_HEAD
    Py_buffer view;
} Mapped;

void mapped_dealloc(PyObject *self);

/* Check that [offset, offset + size) lies inside the view and is aligned; the pointer, or NULL with ValueError. */
void *at(const Py_buffer *view, unsigned long long offset, unsigned long long size, unsigned alignment);

/* Refuse a second initialisation: 0, or -1 with TypeError. */
int first_init(PyObject *self);

/* NULL with TypeError, of an object whose initialisation never came or failed. */
void *never_initialised(void);

extern PyType_Spec client_channel_spec, engine_channel_spec, ring_writer_spec, ring_reader_spec, image_slot_spec,
    spin_budget_spec;
extern PyMethodDef word_methods[], ring_methods[], truncation_methods[];

#endif
