/* NumPy arrays that a caller passes; see arrays.h. */
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#include "arrays.h"

#include <numpy/arrayobject.h>

int arrays_import(void) {
    import_array1(-1);
    return 0;
}

static size_t itemsize_of(char code) {
    return code == 'f' || code == 'i' || code == 'I'                               ? 4
           : code == 'd' || code == 'l' || code == 'L' || code == 'q' || code == 'Q' ? 8
           : code == 'h' || code == 'H'                                             ? 2
                                                                                    : 1;
}

int array_format(ArrayFormat *format, char code, PyObject *shape) {
    const Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim < 1 || ndim > MOST_AXES) {
        PyErr_Format(PyExc_ValueError, "an array has 1 to %d axes", MOST_AXES);
        return -1;
    }
    *format = (ArrayFormat){.code = code, .ndim = (int)ndim, .size = itemsize_of(code)};
    for (int i = 0; i < format->ndim; i++) {
        format->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
        if (format->shape[i] < 1) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "every axis has at least one element");
            return -1;
        }
        format->size *= (size_t)format->shape[i];
    }
    return 0;
}

const uint8_t *array_bytes(PyObject *object, const ArrayFormat *format) {
    if (!PyArray_Check(object)) return NULL;
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_DESCR(array)->type != format->code || PyArray_NDIM(array) != format->ndim ||
        !PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array) || !PyArray_ISNBO(PyArray_DESCR(array)->byteorder))
        return NULL;
    for (int i = 0; i < format->ndim; i++)
        if (PyArray_DIMS(array)[i] != format->shape[i]) return NULL;
    return PyArray_DATA(array);
}
