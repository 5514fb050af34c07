/* The client's end of the step counters: send, recv, and the fused exchange. */
#include "arrays.h"
#include "channel.h"
#include "faults.h"

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    uint64_t *frame_seq, *action_seq;
    uint32_t *frame_status, *park_engine;
    uint8_t *actions, *control, *terminated, *truncated;
    Waiter waiter;
    ActionKind kind;
    ArrayFormat action_format, control_format; /* of the caller's arrays */
    uint32_t num_envs;
    int control_dirty, woke_engine; /* woke_engine: the engine was parked when the last actions came */
    uint64_t seq, received, frames, out_of_bounds;
    /* the fused exchange: what it returns, what takes over when all is not well, how long one call may wait */
    PyObject *shown, *slow, *seq_name, *ended_name; /* shown: a tuple of frames, one for each observation slot */
    int64_t slice_ns;
    int ready; /* initialised, and whole */
} Client;

/* The channel of an object; NULL with TypeError for one whose initialisation never came or failed. */
static inline Client *client_of(PyObject *self) {
    Client *c = (Client *)self;
    return c->ready ? c : never_initialised();
}

/* Publish one exchange: FRAME (done) or why not, before anything is visible to the engine. */
static int client_publish(Client *c, PyObject *actions, PyObject *control) {
    uint64_t outside = 0;
    const uint8_t *given = array_bytes(actions, &c->action_format);
    if (!given) return UNFIT_ACTIONS;
    if (given != c->actions) { /* in place there is nothing to copy, and the caller answers for the values */
        if (!scan_actions(given, c->action_format.size, &c->kind, &outside)) return NOT_FINITE;
        copy_halves(c->actions, given, c->action_format.size, "actions.half");
    }
    if (control != Py_None) {
        const uint8_t *bits = array_bytes(control, &c->control_format);
        if (!bits) return UNFIT_CONTROL;
        memcpy(c->control, bits, c->control_format.size);
        c->control_dirty = 1;
    } else if (c->control_dirty) {
        memset(c->control, 0, c->num_envs);
        c->control_dirty = 0;
    }
    c->out_of_bounds += outside;
    LUCKY_FAULT("actions.written");
    lucky_tell_cpu(c->park_engine, lucky_own_cpu());
    __atomic_store_n(c->action_seq, ++c->seq, __ATOMIC_RELEASE);
    LUCKY_FAULT("actions.counted");
    c->woke_engine = lucky_wake(c->park_engine);
    LUCKY_FAULT("actions.sent");
    return FRAME;
}

static int client_collect(Client *c, int64_t timeout_ns) {
    lucky_watch w = {c->frame_seq, c->seq - 1, NULL, 0, NULL};
    int result = wait_change(&w, &c->waiter, timeout_ns, c->woke_engine);
    if (result != 1) return result;
    if (lucky_load64(c->frame_seq) != c->seq) return OUT_OF_ORDER;
    c->received = c->seq;
    LUCKY_FAULT("frame.received");
    if (__atomic_load_n(c->frame_status, __ATOMIC_RELAXED)) return FRAME_REFUSED;
    int ended = any_nonzero(c->terminated, c->num_envs) || any_nonzero(c->truncated, c->num_envs);
    if (is_lost(c->view.buf)) return OUT_OF_ORDER; /* the caller finds out that it was truncated */
    c->frames++;
    return ended ? FRAME_ENDED : FRAME;
}

static PyObject *client_send(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 2) return PyErr_Format(PyExc_TypeError, "send(actions, control)");
    Client *c = client_of(self);
    return c ? as_result(client_publish(c, args[0], args[1])) : NULL;
}

static PyObject *client_recv(PyObject *self, PyObject *timeout) {
    Client *c = client_of(self);
    if (!c) return NULL;
    long long ns = PyLong_AsLongLong(timeout);
    if (ns == -1 && PyErr_Occurred()) return NULL;
    return as_result(client_collect(c, ns));
}

static PyObject *client_step(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Client *c = client_of(self);
    if (!c) return NULL;
    if (n != 3) return PyErr_Format(PyExc_TypeError, "step(actions, control, timeout_ns)");
    long long ns = PyLong_AsLongLong(args[2]);
    if (ns == -1 && PyErr_Occurred()) return NULL;
    int result = client_publish(c, args[0], args[1]);
    return as_result(result == FRAME ? client_collect(c, ns) : result);
}

/* fuse(frames, slow, slice_ns): from now on exchange(actions) returns the frame of its slot, with seq and any_ended set,
 * and leaves whatever is no plain, successful exchange to slow(code, actions, control, deadline). */
static PyObject *client_fuse(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Client *c = client_of(self);
    if (!c) return NULL;
    if (n != 3 || !PyTuple_Check(args[0]) || !PyTuple_Size(args[0]))
        return PyErr_Format(PyExc_TypeError, "fuse(frames, slow, slice_ns)");
    long long slice = PyLong_AsLongLong(args[2]);
    if (slice == -1 && PyErr_Occurred()) return NULL;
    PyObject *shown = c->shown, *slow = c->slow;
    c->shown = Py_NewRef(args[0]);
    c->slow = Py_NewRef(args[1]);
    c->slice_ns = slice;
    Py_XDECREF(shown);
    Py_XDECREF(slow);
    Py_RETURN_NONE;
}

static PyObject *client_unfuse(PyObject *self, PyObject *unused) {
    Client *c = client_of(self);
    if (!c) return NULL;
    c->slice_ns = -1;
    Py_RETURN_NONE;
}

/* That of the exchange last sent, borrowed. */
static inline PyObject *shown_frame(const Client *c) {
    return PyTuple_GetItem(c->shown, (Py_ssize_t)(c->seq % (uint64_t)PyTuple_Size(c->shown)));
}

static int number_frame(Client *c, uint64_t seq) {
    PyObject *number = PyLong_FromUnsignedLongLong(seq);
    int failed = !number || PyObject_SetAttr(shown_frame(c), c->seq_name, number);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* exchange(actions, control=None, deadline=None) */
static PyObject *client_exchange(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    Client *c = client_of(self);
    if (!c) return NULL;
    PyObject *given[3] = {NULL, Py_None, Py_None};
    static const char *const keys[3] = {"actions", "control", "deadline"};
    if (n > 3 || !c->slow) return PyErr_Format(PyExc_TypeError, "step(actions, control=None, deadline=None)");
    for (Py_ssize_t i = 0; i < n; i++) given[i] = args[i];
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++) {
        int key = 0;
        while (key < 3 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), keys[key])) key++;
        if (key == 3) return PyErr_Format(PyExc_TypeError, "step() has no argument %R", PyTuple_GetItem(names, i));
        given[key] = args[n + i];
    }
    if (!given[0]) return PyErr_Format(PyExc_TypeError, "step() needs actions");
    int result = NOT_TRIED;
    if (given[1] == Py_None && given[2] == Py_None && c->received == c->seq && c->slice_ns >= 0) {
        result = client_publish(c, given[0], Py_None);
        if (result == FRAME) {
            /* numbered while the engine works, for that costs no time then */
            if (number_frame(c, c->frames + 1)) return NULL;
            result = client_collect(c, c->slice_ns);
            if (result == FRAME || result == FRAME_ENDED) {
                PyObject *frame = shown_frame(c);
                if (PyObject_SetAttr(frame, c->ended_name, result ? Py_True : Py_False)) return NULL;
                return Py_NewRef(frame);
            }
        }
    }
    PyObject *kind = NULL, *value = NULL, *trace = NULL;
    if (result == INTERRUPTED) PyErr_Fetch(&kind, &value, &trace); /* a signal: the exchange stays open */
    int failed = number_frame(c, c->frames); /* no new frame so far */
    if (kind) PyErr_Restore(kind, value, trace);
    PyObject *code = failed || kind ? NULL : PyLong_FromLong(result);
    PyObject *answer = code ? PyObject_CallFunctionObjArgs(c->slow, code, given[0], given[1], given[2], NULL) : NULL;
    Py_XDECREF(code);
    return answer;
}

static PyObject *client_frames(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->frames) : NULL;
}

static int client_traverse(PyObject *self, visitproc visit, void *arg) {
    Client *c = (Client *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->shown);
    Py_VISIT(c->slow);
    return 0;
}

static int client_clear(PyObject *self) {
    Client *c = (Client *)self;
    Py_CLEAR(c->shown);
    Py_CLEAR(c->slow);
    return 0;
}

static PyObject *client_seq(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->seq) : NULL;
}

static PyObject *client_received(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->received) : NULL;
}

static PyObject *client_outside(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->out_of_bounds) : NULL;
}

/* `ActionFormat` of channel.py: shape of a batch, struct code, low and high (None, or a number that the code holds). */
static int client_takes(Client *c, PyObject *tuple) {
    PyObject *shape, *low, *high;
    const char *format;
    if (!PyArg_ParseTuple(tuple, "O!sOO", &PyTuple_Type, &shape, &format, &low, &high)) return -1;
    if (array_format(&c->action_format, format[0], shape)) return -1;
    c->kind.kind = format[0] == 'l' ? 'q' : format[0] == 'f' || format[0] == 'd' ? format[0] : 0;
    c->kind.bounded = low != Py_None && high != Py_None;
    if (c->kind.bounded && c->kind.kind == 'q') {
        c->kind.low_q = PyLong_AsLongLong(low);
        c->kind.high_q = PyLong_AsLongLong(high);
        if (PyErr_Occurred()) return -1;
    } else if (c->kind.bounded) {
        c->kind.low = PyFloat_AsDouble(low);
        c->kind.high = PyFloat_AsDouble(high);
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

/* ClientChannel(mapping, offsets, actions, /, strategy, peer): ChannelOffsets, ActionFormat, how to wait. */
static int client_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    Client *c = (Client *)self;
    PyObject *mapping, *offsets, *actions;
    ChannelOffsets o;
    int strategy, peer;
    static char *names[] = {"", "", "", "strategy", "peer", NULL};
    if (first_init(self) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!ii", names, &mapping, &PyTuple_Type, &offsets, &PyTuple_Type,
                                     &actions, &strategy, &peer) ||
        channel_offsets(offsets, &o) || arrays_import() || PyObject_GetBuffer(mapping, &c->view, PyBUF_WRITABLE) ||
        client_takes(c, actions))
        return -1;
    c->num_envs = o.num_envs;
    c->control_format = (ArrayFormat){'B', 1, {o.num_envs}, o.num_envs};
    c->waiter = (Waiter){.budget = {strategy, 0}, .wakes = peer & PEER_WAKES, .lock_fd = -1};
    if (!(c->frame_seq = at(&c->view, o.frame_seq, 8, 8)) || !(c->frame_status = at(&c->view, o.frame_status, 4, 4)) ||
        !(c->action_seq = at(&c->view, o.action_seq, 8, 8)) || !(c->park_engine = at(&c->view, o.park_engine, 8, 4)) ||
        !(c->waiter.park = at(&c->view, o.park_frame, 8, 4)) ||
        !(c->actions = at(&c->view, o.actions, c->action_format.size, 1)) ||
        !(c->control = at(&c->view, o.control, o.num_envs, 1)) ||
        !(c->terminated = at(&c->view, o.terminated, o.num_envs, 1)) ||
        !(c->truncated = at(&c->view, o.truncated, o.num_envs, 1)))
        return -1;
    c->control_dirty = 1;
    c->seq = c->received = lucky_load64(c->action_seq);
    c->slice_ns = -1;
    c->seq_name = PyUnicode_InternFromString("seq");
    c->ended_name = PyUnicode_InternFromString("any_ended");
    c->ready = c->seq_name && c->ended_name;
    return c->ready ? 0 : -1;
}

static void client_dealloc(PyObject *self) {
    Client *c = (Client *)self;
    PyObject_GC_UnTrack(self);
    client_clear(self);
    Py_XDECREF(c->seq_name);
    Py_XDECREF(c->ended_name);
    mapped_dealloc(self);
}

static PyMethodDef client_methods[] = {
    {"send", (PyCFunction)(void (*)(void))client_send, METH_FASTCALL, "Publish actions and control (None: all step)."},
    {"recv", client_recv, METH_O, "Wait at most timeout_ns for the frame of the last send."},
    {"exchange", (PyCFunction)(void (*)(void))client_exchange, METH_FASTCALL | METH_KEYWORDS, "See fuse."},
    {"fuse", (PyCFunction)(void (*)(void))client_fuse, METH_FASTCALL, "Make exchange return a frame."},
    {"unfuse", client_unfuse, METH_NOARGS, "Leave every exchange to the slow path from now on."},
    {"step", (PyCFunction)(void (*)(void))client_step, METH_FASTCALL, "send and recv in one call."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef client_getset[] = {{"seq", client_seq, NULL, "Exchanges sent.", NULL},
                                      {"received", client_received, NULL, "The last exchange that has ended.", NULL},
                                      {"frames", client_frames, NULL, "Frames received.", NULL},
                                      {"out_of_bounds", client_outside, NULL, "Values outside the bounds.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot client_slots[] = {{Py_tp_init, client_init},
                                     {Py_tp_dealloc, client_dealloc},
                                     {Py_tp_traverse, client_traverse},
                                     {Py_tp_clear, client_clear},
                                     {Py_tp_methods, client_methods},
                                     {Py_tp_getset, client_getset},
                                     {0, NULL}};
PyType_Spec client_channel_spec = {"lucky_transport._native.ClientChannel", sizeof(Client), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, client_slots};
