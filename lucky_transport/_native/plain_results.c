/* What VectorEnv.step returns, made in one call: PlainResults.
 *
 * With NumPy's C API an array is made in a third of the time that ndarray.copy takes.
 */
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#include "native.h"

#include <numpy/arrayobject.h>

enum { OBSERVATIONS, REWARDS, SIGNALS, ARRAYS };
static const char *const array_names[ARRAYS] = {"observations", "rewards", "signals"};

typedef struct {
    PyObject_HEAD
    PyObject *info, *shared, *reward_columns, *reference;
    PyObject *names[ARRAYS]; /* of the frame's attributes, interned */
    int copies;
} Results;

/* An array whose bytes are all of it and mean nothing to the garbage collector. */
static int is_plain(PyObject *array) {
    return array && PyArray_CheckExact(array) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)array) &&
           !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)array));
}

/* A new array of that shape, filled with as many bytes from `from`. */
static PyObject *filled(PyArray_Descr *type, int ndim, const npy_intp *shape, const void *from) {
    Py_INCREF((PyObject *)type);
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, type, ndim, shape, NULL, NULL, 0, NULL);
    if (array) memcpy(PyArray_DATA((PyArrayObject *)array), from, (size_t)PyArray_NBYTES((PyArrayObject *)array));
    return array;
}

static PyObject *copy_of(PyArrayObject *array) {
    return filled(PyArray_DESCR(array), PyArray_NDIM(array), PyArray_DIMS(array), PyArray_DATA(array));
}

static PyObject *no_env(npy_intp num_envs) {
    PyObject *flags = PyArray_SimpleNew(1, &num_envs, NPY_BOOL);
    if (flags) memset(PyArray_DATA((PyArrayObject *)flags), 0, (size_t)num_envs);
    return flags;
}

/* The info whose reward columns are copies of the first rows of `signals`: each an array of its own, which takes one
 * array less than views of one copy do, and keeps no other column's memory. */
static PyObject *info_of(Results *r, PyArrayObject *signals) {
    PyObject *info = PyObject_CallFunctionObjArgs(r->info, r->shared, NULL);
    const Py_ssize_t columns = PyTuple_Size(r->reward_columns);
    for (Py_ssize_t i = 0; info && i < columns; i++) {
        const char *row = PyArray_BYTES(signals) + i * PyArray_STRIDE(signals, 0);
        PyObject *column = filled(PyArray_DESCR(signals), 1, PyArray_DIMS(signals) + 1, row);
        if (!column || PyDict_SetItem(info, PyTuple_GetItem(r->reward_columns, i), column)) Py_CLEAR(info);
        Py_XDECREF(column);
    }
    return info;
}

/* True when the rows after the reward columns, the termination terms, are all zero bytes. */
static int none_terminates(const Results *r, PyArrayObject *signals) {
    const char *start = PyArray_BYTES(signals) + PyTuple_Size(r->reward_columns) * PyArray_STRIDE(signals, 0);
    const size_t bytes = (size_t)(PyArray_BYTES(signals) + PyArray_NBYTES(signals) - start);
    return !bytes || (!*start && !memcmp(start, start + 1, bytes - 1));
}

static PyObject *result_of(Results *r, PyArrayObject *const arrays[ARRAYS]) {
    const npy_intp num_envs = PyArray_DIM(arrays[REWARDS], 0);
    PyObject *observations = (PyObject *)arrays[OBSERVATIONS], *parts[5] = {NULL};
    if ((parts[0] = r->copies ? copy_of(arrays[OBSERVATIONS]) : Py_NewRef(observations)) &&
        (parts[1] = copy_of(arrays[REWARDS])) && (parts[2] = no_env(num_envs)) && (parts[3] = no_env(num_envs)))
        parts[4] = info_of(r, arrays[SIGNALS]);
    PyObject *result = parts[4] ? PyTuple_New(5) : NULL;
    for (Py_ssize_t i = 0; i < 5; i++) {
        if (result) PyTuple_SetItem(result, i, parts[i]); /* takes the reference */
        else Py_XDECREF(parts[i]);
    }
    return result;
}

static PyObject *results_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    Results *r = (Results *)self;
    PyObject *frame, *found[ARRAYS] = {NULL}, *result = NULL;
    if (!r->reference) return never_initialised();
    if ((kwargs && PyDict_Size(kwargs)) || PyTuple_Size(args) != 1)
        return PyErr_Format(PyExc_TypeError, "expected a frame and nothing else");
    frame = PyTuple_GetItem(args, 0);
    int plain = 1;
    for (int i = 0; i < ARRAYS; i++) {
        if (!(found[i] = PyObject_GetAttr(frame, r->names[i]))) goto done;
        plain &= is_plain(found[i]);
    }
    PyArrayObject *arrays[ARRAYS] = {(PyArrayObject *)found[0], (PyArrayObject *)found[1], (PyArrayObject *)found[2]};
    if (plain && PyArray_NDIM(arrays[REWARDS]) == 1 && PyArray_NDIM(arrays[SIGNALS]) == 2 &&
        PyArray_DIM(arrays[SIGNALS], 0) >= PyTuple_Size(r->reward_columns) && none_terminates(r, arrays[SIGNALS]))
        result = result_of(r, arrays);
    else result = PyObject_CallFunctionObjArgs(r->reference, frame, NULL);
done:
    for (int i = 0; i < ARRAYS; i++) Py_XDECREF(found[i]);
    return result;
}

/* NumPy's C API comes with the first object that uses it: programs without arrays never load it. */
static int results_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    Results *r = (Results *)self;
    PyObject *info, *shared, *reward_columns, *reference;
    int copies;
    if (r->reference || (kwargs && PyDict_Size(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "initialised once, by position");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OO!O!pO", &info, &PyDict_Type, &shared, &PyTuple_Type, &reward_columns, &copies,
                          &reference))
        return -1;
    import_array1(-1);
    for (int i = 0; i < ARRAYS; i++)
        if (!r->names[i] && !(r->names[i] = PyUnicode_InternFromString(array_names[i]))) return -1;
    r->info = Py_NewRef(info);
    r->shared = Py_NewRef(shared);
    r->reward_columns = Py_NewRef(reward_columns);
    r->copies = copies;
    r->reference = Py_NewRef(reference);
    return 0;
}

static int results_traverse(PyObject *self, visitproc visit, void *arg) {
    Results *r = (Results *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(r->info);
    Py_VISIT(r->shared);
    Py_VISIT(r->reward_columns);
    Py_VISIT(r->reference);
    return 0;
}

static int results_clear(PyObject *self) {
    Results *r = (Results *)self;
    Py_CLEAR(r->info);
    Py_CLEAR(r->shared);
    Py_CLEAR(r->reward_columns);
    Py_CLEAR(r->reference);
    return 0;
}

static void results_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    results_clear(self);
    for (int i = 0; i < ARRAYS; i++) Py_CLEAR(((Results *)self)->names[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyType_Slot results_slots[] = {{Py_tp_init, results_init},
                                      {Py_tp_call, results_call},
                                      {Py_tp_dealloc, results_dealloc},
                                      {Py_tp_traverse, results_traverse},
                                      {Py_tp_clear, results_clear},
                                      {0, NULL}};
PyType_Spec plain_results_spec = {"lucky_transport._native.PlainResults", sizeof(Results), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, results_slots};
