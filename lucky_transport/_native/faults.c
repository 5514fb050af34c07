/* The hook of the fault points; see faults.h. */
#include "faults.h"

#ifdef LUCKY_FAULT_POINTS

static PyObject *fault_function;

void fault_reached(const char *point) {
    if (!fault_function) return;
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *result = PyObject_CallFunction(fault_function, "s", point);
    if (!result) PyErr_WriteUnraisable(fault_function);
    Py_XDECREF(result);
    PyErr_Restore(kind, value, trace);
}

/* fault_hook(function): have function(point) called at every fault point; None: nothing any more. */
static PyObject *fault_hook(PyObject *module, PyObject *function) {
    PyObject *before = fault_function;
    fault_function = function == Py_None ? NULL : Py_NewRef(function);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

PyMethodDef fault_methods[] = {{"fault_hook", fault_hook, METH_O, NULL}, {NULL, NULL, 0, NULL}};

#endif
