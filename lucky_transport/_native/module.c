/* The extension module lucky_transport._native: its types and functions; native.pyi says what they do. */
#include "envelope.h"
#include "faults.h"

void mapped_dealloc(PyObject *self) {
    Mapped *m = (Mapped *)self;
    if (m->view.obj) PyBuffer_Release(&m->view);
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

void *at(const Py_buffer *view, unsigned long long offset, unsigned long long size, unsigned alignment) {
    if (offset > (unsigned long long)view->len || size > (unsigned long long)view->len - offset || offset % alignment) {
        PyErr_Format(PyExc_ValueError, "offset %llu (+%llu) does not lie in the %zd bytes mapped", offset, size,
                     view->len);
        return NULL;
    }
    return (uint8_t *)view->buf + offset;
}

int first_init(PyObject *self) {
    if (!((Mapped *)self)->view.obj) return 0;
    PyErr_SetString(PyExc_TypeError, "a native object is initialised once");
    return -1;
}

void *never_initialised(void) {
    PyErr_SetString(PyExc_TypeError, "this object was never initialised");
    return NULL;
}

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_native", "See native.pyi.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    static const struct {
        const char *name;
        PyType_Spec *spec;
    } types[] = {
        {"ClientChannel", &client_channel_spec}, {"EngineChannel", &engine_channel_spec},
        {"RingWriter", &ring_writer_spec},       {"RingReader", &ring_reader_spec},
        {"ImageSlot", &image_slot_spec},         {"SpinBudget", &spin_budget_spec},
        {"PlainResults", &plain_results_spec},
    };
    PyObject *module = PyModule_Create(&module_def);
    if (!module) return NULL;
    int failed = PyModule_AddFunctions(module, word_methods) || PyModule_AddFunctions(module, ring_methods) ||
                 PyModule_AddFunctions(module, truncation_methods) || PyModule_AddFunctions(module, envelope_methods) ||
#ifdef LUCKY_FAULT_POINTS
                 PyModule_AddFunctions(module, fault_methods) ||
#endif
                 PyModule_AddIntConstant(module, "VERSION", NATIVE_VERSION);
    for (size_t i = 0; !failed && i < sizeof types / sizeof types[0]; i++) {
        PyObject *type = PyType_FromSpec(types[i].spec);
        failed = !type || PyModule_AddObjectRef(module, types[i].name, type);
        Py_XDECREF(type);
    }
    if (!failed) return module;
    Py_DECREF(module);
    return NULL;
}
