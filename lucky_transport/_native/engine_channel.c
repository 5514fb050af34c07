/* The engine's end of the step counters: next, publish, and the fused serve. */
#include "channel.h"
#include "faults.h"

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    uint64_t *frame_seq, *action_seq, *heartbeat;
    uint32_t *frame_status, *park_frame, *commands;
    uint8_t *control;
    Waiter waiter;
    uint32_t num_envs, commands_read;
    uint64_t seq;
    uint32_t interrupted; /* by another thread; the wait or the serving thread takes it back */
    int idle, ready;
} EngineEnd;

static inline EngineEnd *engine_of(PyObject *self) {
    EngineEnd *e = (EngineEnd *)self;
    return e->ready ? e : never_initialised();
}

static lucky_watch engine_watch(EngineEnd *e) {
    __atomic_store_n(e->heartbeat, *e->heartbeat + 1, __ATOMIC_RELAXED); /* one writer */
    return (lucky_watch){e->action_seq, e->seq, e->commands, e->commands_read, &e->interrupted};
}

/* What there is to do: HAS_* bits, or OUT_OF_ORDER. */
static int engine_found(EngineEnd *e) {
    e->idle = 0;
    /* actions first: commands written before them are then in the ring, and are drained before the step */
    uint64_t actions = lucky_load64(e->action_seq);
    int found = lucky_load32(e->commands) != e->commands_read ? HAS_COMMANDS : 0;
    if (actions == e->seq + 1) {
        found |= HAS_ACTIONS;
        LUCKY_FAULT("actions.received");
        if (any_nonzero(e->control, e->num_envs)) found |= HAS_CONTROL;
    } else if (actions != e->seq) {
        return OUT_OF_ORDER;
    }
    return found;
}

/* `found`, or TIMED_OUT after interrupt(): nothing is consumed yet, so what there is is found again. An interrupt during a
 * wait that ends by an error is taken too: who interrupts says why in a flag of its own, which the caller looks at. */
static int engine_take_interrupt(EngineEnd *e, int found) {
    return __atomic_exchange_n(&e->interrupted, 0, __ATOMIC_ACQ_REL) && found >= 0 ? TIMED_OUT : found;
}

/* One slice of waiting, and what was found; INTERRUPTED with a Python exception. */
static int engine_wait(EngineEnd *e, int64_t ns) {
    lucky_watch w = engine_watch(e);
    int result = wait_change(&w, &e->waiter, ns, e->idle); /* an idle engine parks at once until something happens */
    if (result == 1) return engine_found(e);
    e->idle = 1;
    return result;
}

static PyObject *engine_next(PyObject *self, PyObject *timeout) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    long long ns = PyLong_AsLongLong(timeout);
    if (ns == -1 && PyErr_Occurred()) return NULL;
    return as_result(engine_take_interrupt(e, engine_wait(e, ns)));
}

static void engine_announce(EngineEnd *e, uint32_t status) {
    LUCKY_FAULT("frame.written");
    __atomic_store_n(e->frame_status, status, __ATOMIC_RELAXED);
    lucky_tell_cpu(e->park_frame, lucky_own_cpu());
    LUCKY_FAULT("frame.status");
    __atomic_store_n(e->frame_seq, ++e->seq, __ATOMIC_RELEASE);
    LUCKY_FAULT("frame.counted");
    lucky_wake(e->park_frame);
    LUCKY_FAULT("frame.sent");
}

static PyObject *engine_publish(PyObject *self, PyObject *status) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    unsigned long code = PyLong_AsUnsignedLong(status);
    if (code == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    engine_announce(e, (uint32_t)code);
    Py_RETURN_NONE;
}

static int call_nothing(PyObject *function) {
    PyObject *result = PyObject_CallNoArgs(function);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* serve(step, acquire, release, timeout_ns): answer plain actions by step(None), under the lock, until something else
 * is found (what `next` returns), interrupt() was called (TIMED_OUT) or step raised. The lock stays held from one step
 * to the next while no other thread of this process can run between them; it is free during every longer wait. */
static PyObject *engine_serve(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    if (n != 4) return PyErr_Format(PyExc_TypeError, "serve(step, acquire, release, timeout_ns)");
    long long ns = PyLong_AsLongLong(args[3]);
    if (ns == -1 && PyErr_Occurred()) return NULL;
    PyObject *plain = PyTuple_Pack(1, Py_None); /* one for all calls: that is a fast step's fifth part */
    if (!plain) return NULL;
    int locked = 0, found;
    for (;;) {
        lucky_watch w = engine_watch(e);
        if (!e->idle && changed_at_once(&w, &e->waiter)) {
            learn(&e->waiter.budget, 1);
            found = engine_found(e);
        } else {
            if (locked && call_nothing(args[2])) {
                locked = 0;
                found = INTERRUPTED;
                break;
            }
            locked = 0;
            found = engine_wait(e, ns);
        }
        found = engine_take_interrupt(e, found);
        if (found != HAS_ACTIONS) break;
        if (!locked && call_nothing(args[1])) {
            found = INTERRUPTED;
            break;
        }
        locked = 1;
        PyObject *stepped = PyObject_Call(args[0], plain, NULL);
        if (!stepped) {
            found = INTERRUPTED;
            break;
        }
        Py_DECREF(stepped);
        engine_announce(e, 0);
        if (e->seq % SIGNAL_LOOKS == 0 && PyErr_CheckSignals()) { /* a step in C may run no bytecode, which looks too */
            found = INTERRUPTED;
            break;
        }
    }
    Py_DECREF(plain);
    if (locked) {
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        int failed = call_nothing(args[2]);
        if (failed && kind) PyErr_Clear();
        if (!failed || kind) PyErr_Restore(kind, value, trace);
        else return NULL;
    }
    return as_result(found);
}

static PyObject *engine_interrupt(PyObject *self, PyObject *unused) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    __atomic_store_n(&e->interrupted, 1, __ATOMIC_RELEASE);
    lucky_wake(e->waiter.park);
    Py_RETURN_NONE;
}

static PyObject *engine_commands(PyObject *self, PyObject *position) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    unsigned long value = PyLong_AsUnsignedLong(position);
    if (value == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    e->commands_read = (uint32_t)value;
    Py_RETURN_NONE;
}

/* set_peer(peer, lock_fd=-1, lock_byte=0) */
static PyObject *engine_peer(PyObject *self, PyObject *args) {
    EngineEnd *e = engine_of(self);
    int peer, fd = -1;
    long long byte = 0;
    if (!e || !PyArg_ParseTuple(args, "i|iL", &peer, &fd, &byte)) return NULL;
    e->waiter.wakes = peer & PEER_WAKES;
    e->waiter.lock_fd = fd;
    e->waiter.lock_byte = byte;
    __atomic_store_n(e->waiter.park + 1, 0, __ATOMIC_RELAXED); /* that of the client before it, if it says none itself */
    Py_RETURN_NONE;
}

static PyObject *engine_resync(PyObject *self, PyObject *unused) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    __atomic_store_n(e->action_seq, e->seq, __ATOMIC_RELEASE);
    Py_RETURN_NONE;
}

static PyObject *engine_seq(PyObject *self, void *closure) {
    EngineEnd *e = engine_of(self);
    return e ? PyLong_FromUnsignedLongLong(e->seq) : NULL;
}

/* EngineChannel(mapping, offsets, /, strategy) */
static int engine_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    EngineEnd *e = (EngineEnd *)self;
    PyObject *mapping, *offsets;
    ChannelOffsets o;
    int strategy;
    static char *names[] = {"", "", "strategy", NULL};
    if (first_init(self) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "OO!i", names, &mapping, &PyTuple_Type, &offsets, &strategy) ||
        channel_offsets(offsets, &o) || PyObject_GetBuffer(mapping, &e->view, PyBUF_WRITABLE))
        return -1;
    e->num_envs = o.num_envs;
    e->waiter = (Waiter){.budget = {strategy, 0}, .wakes = 1, .lock_fd = -1, .is_called = 1}; /* called by a client that comes or leaves */
    if (!(e->frame_seq = at(&e->view, o.frame_seq, 8, 8)) || !(e->frame_status = at(&e->view, o.frame_status, 4, 4)) ||
        !(e->action_seq = at(&e->view, o.action_seq, 8, 8)) || !(e->heartbeat = at(&e->view, o.heartbeat, 8, 8)) ||
        !(e->waiter.park = at(&e->view, o.park_engine, 8, 4)) || !(e->park_frame = at(&e->view, o.park_frame, 8, 4)) ||
        !(e->commands = at(&e->view, o.commands, 4, 4)) || !(e->control = at(&e->view, o.control, o.num_envs, 1)))
        return -1;
    e->seq = lucky_load64(e->frame_seq);
    e->ready = 1;
    return 0;
}

static PyMethodDef engine_methods[] = {
    {"next", engine_next, METH_O, "Wait at most timeout_ns (one slice) for actions or commands."},
    {"publish", engine_publish, METH_O, "Announce the frame, or status != 0: there is none."},
    {"serve", (PyCFunction)(void (*)(void))engine_serve, METH_FASTCALL, "Answer plain actions until something else."},
    {"interrupt", engine_interrupt, METH_NOARGS, "Make next return at once, and serve after its present step."},
    {"commands_read", engine_commands, METH_O, "Commands up to this ring position are read."},
    {"set_peer", engine_peer, METH_VARARGS, "What the client does, PEER_WAKES or 0, and the lock that it holds."},
    {"resync", engine_resync, METH_NOARGS, "Drop an exchange that a dead client left behind."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef engine_getset[] = {{"seq", engine_seq, NULL, "Frames written.", NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot engine_slots[] = {{Py_tp_init, engine_init},
                                     {Py_tp_dealloc, mapped_dealloc},
                                     {Py_tp_methods, engine_methods},
                                     {Py_tp_getset, engine_getset},
                                     {0, NULL}};
PyType_Spec engine_channel_spec = {"lucky_transport._native.EngineChannel", sizeof(EngineEnd), 0,
                                  Py_TPFLAGS_DEFAULT, engine_slots};
