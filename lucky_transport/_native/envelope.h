/* The methods of a ring's ends that write and read compact and image envelopes, which codec/envelope.py lays out.
 *
 *   compact   0 to 32    COMPACT_HEAD: root offset, vtable, distance back to it
 *             32 to 68   method, correlation id, deadline, kind, offset and length of the payload
 *             68         the payload
 *   image     0 to 48    IMAGE_HEAD: root offset, vtable, distance back to it
 *             48 to 108  dropped, correlation id, kind, offsets, the image's place, length of the payload
 *             108        the payload
 */
#ifndef LUCKY_ENVELOPE_H
#define LUCKY_ENVELOPE_H

#include "memory.h"

/* payload_at_end(record), of the module. */
extern PyMethodDef envelope_methods[];

/* RingWriter.push and RingReader.pop_batch. */
PyObject *ring_push_fields(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *ring_pop_batch(PyObject *self, PyObject *limit);

#endif
