/* The two words of a slot of images, its number and its owner; image_file.py says more.
 *
 *   call        by       owner         number
 *   take        engine   0             becomes n - 1: image n is being written
 *   hand_over   engine   becomes n     becomes n: image n is whole
 *   give_back   client   n becomes 0   stays n; an engine that waits for a slot is woken
 */
#include "faults.h"
#include "wait.h"

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    uint32_t *number, *owner, *park;
} ImageSlot;

/* ImageSlot(mapping, /, number, owner, park): the bytes of its words, and of the park word of an engine that waits. */
static int slot_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    ImageSlot *s = (ImageSlot *)self;
    PyObject *mapping;
    unsigned long long number, owner, park;
    static char *names[] = {"", "number", "owner", "park", NULL};
    if (first_init(self) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "OKKK", names, &mapping, &number, &owner, &park) ||
        PyObject_GetBuffer(mapping, &s->view, PyBUF_WRITABLE))
        return -1;
    uint32_t *n = at(&s->view, number, 4, 4), *o = at(&s->view, owner, 4, 4), *p = at(&s->view, park, 4, 4);
    if (!n || !o || !p) return -1;
    s->number = n;
    s->owner = o;
    s->park = p;
    return 0;
}

/* The slot of an object; NULL with TypeError for one that was never initialised. */
static inline ImageSlot *slot_of(PyObject *self) {
    ImageSlot *s = (ImageSlot *)self;
    return s->number ? s : never_initialised();
}

static int as_number(PyObject *value, uint32_t *number) {
    unsigned long found = PyLong_AsUnsignedLong(value);
    if (found == (unsigned long)-1 && PyErr_Occurred()) return -1;
    *number = (uint32_t)found;
    if (found == *number) return 0;
    PyErr_Format(PyExc_OverflowError, "number %lu of an image, expected at most %u", found, UINT32_MAX);
    return -1;
}

static PyObject *slot_number(PyObject *self, PyObject *unused) {
    ImageSlot *s = slot_of(self);
    if (!s) return NULL;
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* a reader looks again once it has copied: not before the copy's loads */
    return PyLong_FromUnsignedLong(lucky_load32(s->number));
}

static PyObject *slot_owner(PyObject *self, PyObject *unused) {
    ImageSlot *s = slot_of(self);
    return s ? PyLong_FromUnsignedLong(lucky_load32(s->owner)) : NULL;
}

static PyObject *slot_take(PyObject *self, PyObject *value) {
    ImageSlot *s = slot_of(self);
    uint32_t number;
    if (!s || as_number(value, &number)) return NULL;
    if (lucky_load32(s->owner)) Py_RETURN_FALSE;
    __atomic_store_n(s->number, number - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* the image's bytes come after it, for a reader's second look */
    LUCKY_FAULT("image.taken");
    Py_RETURN_TRUE;
}

static PyObject *slot_hand_over(PyObject *self, PyObject *value) {
    ImageSlot *s = slot_of(self);
    uint32_t number;
    if (!s || as_number(value, &number)) return NULL;
    LUCKY_FAULT("image.written");
    __atomic_store_n(s->number, number, __ATOMIC_RELEASE);
    LUCKY_FAULT("image.numbered");
    __atomic_store_n(s->owner, number, __ATOMIC_RELAXED); /* the message with it comes later, with release */
    LUCKY_FAULT("image.handed_over");
    Py_RETURN_NONE;
}

static PyObject *slot_give_back(PyObject *self, PyObject *value) {
    ImageSlot *s = slot_of(self);
    uint32_t number;
    if (!s || as_number(value, &number)) return NULL;
    /* fails without a write where it is owned otherwise; else it fetches the line once, to write to it */
    if (__atomic_compare_exchange_n(s->owner, &number, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        LUCKY_FAULT("image.given_back");
        lucky_wake(s->park);
    }
    Py_RETURN_NONE;
}

static PyMethodDef slot_methods[] = {
    {"number", slot_number, METH_NOARGS, "What lies in it."},
    {"owner", slot_owner, METH_NOARGS, "0: the engine; else the client, of the image with that number."},
    {"take", slot_take, METH_O, "Say that an image is being written to it; False when the client owns it."},
    {"hand_over", slot_hand_over, METH_O, "The image is whole: number the slot and give it to the client."},
    {"give_back", slot_give_back, METH_O, "Give it to the engine, if it is still owned as that number."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slot_slots[] = {{Py_tp_init, slot_init},
                                   {Py_tp_dealloc, mapped_dealloc},
                                   {Py_tp_methods, slot_methods},
                                   {0, NULL}};
PyType_Spec image_slot_spec = {"lucky_transport._native.ImageSlot", sizeof(ImageSlot), 0, Py_TPFLAGS_DEFAULT, slot_slots};
