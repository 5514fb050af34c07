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
#include <string.h>

#include "constants.h"
#include "lucky_park.h"

/* Beside channel.py's `Result`: a signal's handler raised, and its Python exception is set. */
#define INTERRUPTED (-100)

static inline PyObject *as_result(int result) { return result == INTERRUPTED ? NULL : PyLong_FromLong(result); }

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
    spin_budget_spec, plain_results_spec;
extern PyMethodDef word_methods[], ring_methods[], truncation_methods[];

#endif
