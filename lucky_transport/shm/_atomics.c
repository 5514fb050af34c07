/* Ordered access to a segment's words, whole waits with the GIL released, and the fused step.
 *
 * Rule 1: publishing is: data, release-store of the counter, full fence, look at the park word, wake if it was 1.
 *         Waiting is: park = 1, full fence, look at the counter again, futex. The two fences close the store-load window
 *         in which both sides would read the old value and the wake-up would be lost.
 * Rule 2: every wait is cut into slices; between slices the peer's pidfd and Python's signals are looked at.
 * Rule 3: nothing here trusts the segment: offsets and sizes come from the caller, who checked them; counters that move
 *         by anything but one are reported, not repaired.
 *
 * Limited API of Python 3.11 (the first with Py_buffer), Linux futexes, GCC/Clang atomics.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ATOMICS_VERSION 18

#define GIL_LOOKS 64          /* looks with the GIL held, 1 to 3 us: a fast step pays neither for the GIL nor a clock */
#define PAUSE_NS 10000        /* then pause without the GIL: the peer may share our core, so not for long */
#define YIELD_NS 150000       /* then give the core away between looks; longer only delays the park, unless... */
#define SOON_NS 800000        /* ...the last waits were over so soon: being woken takes a good part of it, on either side */
#define PAUSES 16             /* between looks at the clock: yields alone slow the other thread of a hyperthreaded core */
#define SLICE_NS 50000000     /* a parked wait looks at the peer's pidfd this often: death is seen within 50 ms */
#define SPIN_SLICE_NS 10000000
#define NAP_NS 500000         /* a peer that never wakes us is looked at this often (at most 1 ms apart) */

/* WAIT_CROWDED: as adaptive, where threads of this process want the core as much as the peer does: no pausing. */
enum { WAIT_SPIN = 0, WAIT_ADAPTIVE = 1, WAIT_BLOCK = 2, WAIT_CROWDED = 3 };
enum { PEER_WAKES = 1, PEER_PARKS = 2 }; /* we look at the park word anyway, so PEER_PARKS matters to the fallback only */

/* Results of send / recv / step and next, also exported to Python. */
enum {
    FRAME = 0, FRAME_ENDED = 1, FRAME_REFUSED = 2,
    TIMED_OUT = -1, PEER_GONE = -2, OUT_OF_ORDER = -3, NOT_TRIED = -10, UNFIT_ACTIONS = -11, NOT_FINITE = -12, UNFIT_CONTROL = -13,
    HAS_ACTIONS = 1, HAS_CONTROL = 2, HAS_COMMANDS = 4,
};

#include "_truncation.h"

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* `start + ns`, or as late as there is. */
static inline int64_t later(int64_t start, int64_t ns) {
    int64_t end;
    return __builtin_add_overflow(start, ns, &end) ? (ns < 0 ? INT64_MIN : INT64_MAX) : end;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static inline uint64_t load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint32_t load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

static void futex_wait(uint32_t *word, int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, 1, &t, NULL, 0);
}

/* True when the peer was parked. */
static inline int wake(uint32_t *park) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(park, __ATOMIC_RELAXED) || !__atomic_exchange_n(park, 0, __ATOMIC_ACQ_REL)) return 0;
    syscall(SYS_futex, park, FUTEX_WAKE, 1, NULL, NULL, 0);
    return 1;
}

static int gone(int pidfd) {
    if (pidfd < 0) return 0;
    struct pollfd p = {pidfd, POLLIN, 0};
    return poll(&p, 1, 0) > 0;
}

/* What a waiter looks at: up to two words, each against the value it must leave, and a word of this process that ends the
 * wait once it is not 0. */
typedef struct {
    const uint64_t *wide;
    uint64_t wide_old;
    const uint32_t *narrow;
    uint32_t narrow_old;
    const uint32_t *stop;
} Watch;

static inline int changed(const Watch *w) {
    if (w->wide && load64(w->wide) != w->wide_old) return 1;
    if (w->narrow && load32(w->narrow) != w->narrow_old) return 1;
    return w->stop && load32(w->stop);
}

/* What an adaptive waiter learns from its waits: +1 for one that was over soon, -1 for one that was not, a new start at
 * each turn; at the ends it knows what to expect. habit.py does the same. */
enum { HABIT_LATE = -2, HABIT_SOON = 4 };

typedef struct {
    int strategy;
    int wakes;        /* the peer honours our park word */
    int pidfd;
    uint32_t *park;
    int habit;
} Waiter;

static inline void learn(Waiter *me, int soon) {
    if (soon) me->habit = me->habit < 0 ? 0 : me->habit < HABIT_SOON ? me->habit + 1 : HABIT_SOON;
    else me->habit = me->habit > 0 ? 0 : me->habit > HABIT_LATE ? me->habit - 1 : HABIT_LATE;
}

/* One slice of a wait, without the GIL: 1 changed, 0 slice over, PEER_GONE. `rested` skips the spinning phases. */
static int wait_slice(const Watch *w, const Waiter *me, int64_t until, int rested) {
    int64_t start = now_ns(), t = start;
    int spins = me->strategy == WAIT_SPIN || (me->strategy != WAIT_BLOCK && !rested);
    if (spins) {
        int64_t pause_end = me->strategy == WAIT_CROWDED ? start : start + PAUSE_NS;
        int64_t yield_end = start + (me->strategy == WAIT_SPIN ? SPIN_SLICE_NS
                                     : me->strategy == WAIT_ADAPTIVE && me->habit == HABIT_SOON ? SOON_NS : YIELD_NS);
        while (t < yield_end && t < until) {
            for (int i = 0; i < PAUSES; i++) {
                if (changed(w)) return 1;
                relax();
            }
            if (t >= pause_end) sched_yield();
            t = now_ns();
        }
    }
    if (changed(w)) return 1;
    if (me->strategy == WAIT_SPIN) return gone(me->pidfd) ? (changed(w) ? 1 : PEER_GONE) : 0;
    int64_t end = t + SLICE_NS < until ? t + SLICE_NS : until;
    if (me->wakes) {
        if (end > t) {
            __atomic_store_n(me->park, 1, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            if (!changed(w)) futex_wait(me->park, end - t);
            __atomic_store_n(me->park, 0, __ATOMIC_RELAXED);
        }
    } else {
        while (t < end && !changed(w)) {
            int64_t nap = end - t < NAP_NS ? end - t : NAP_NS;
            struct timespec s = {0, nap};
            nanosleep(&s, NULL);
            t = now_ns();
        }
    }
    if (changed(w)) return 1;
    /* a peer that published and then died still counts as having published */
    return gone(me->pidfd) ? (changed(w) ? 1 : PEER_GONE) : 0;
}

/* The first looks, with the GIL held. */
static inline int changed_at_once(const Watch *w, const Waiter *me) {
    if (changed(w)) return 1;
    if (me->strategy != WAIT_BLOCK && me->strategy != WAIT_CROWDED)
        for (int i = 0; i < GIL_LOOKS; i++) {
            relax();
            if (changed(w)) return 1;
        }
    return 0;
}

/* A whole wait, entered with the GIL: 1, TIMED_OUT, PEER_GONE, or -100 with a Python exception (a signal). `rested`
 * parks at once: nothing can come soon, from a peer that is only being woken or was idle for long. So does a waiter whose
 * last waits were long. */
static int wait_change(const Watch *w, Waiter *me, int64_t timeout_ns, int rested) {
    if (me->strategy == WAIT_SPIN) rested = 0;
    else if (me->habit == HABIT_LATE) rested = 1;
    int result = rested ? changed(w) : changed_at_once(w, me);
    if (result) {
        learn(me, 1);
        return result;
    }
    int64_t start = now_ns(), t = start, until = later(start, timeout_ns);
    do {
        PyThreadState *thread = PyEval_SaveThread();
        result = wait_slice(w, me, until, rested);
        PyEval_RestoreThread(thread);
        t = now_ns();
        if (!result && PyErr_CheckSignals()) return -100;
        rested = me->strategy != WAIT_SPIN;
    } while (!result && t < until && !is_lost(me->park)); /* then the caller is told at once */
    if (result == 1 || t - start > SOON_NS) learn(me, t - start <= SOON_NS);
    return result ? result : TIMED_OUT;
}

/* ---- actions: does the array fit, is it finite, how many values lie outside the bounds ------------------------- */

typedef struct {
    char kind;              /* 'f' float32, 'd' float64, 'q' int64, 0 other: no scan */
    int bounded;            /* scalar bounds given */
    double low, high;       /* exact: of the actions' own type */
    int64_t low_q, high_q;  /* the same of int64, which a double does not hold */
} ActionKind;

#define SCAN(NAME, TYPE, BITS, MASK, LOW, HIGH)                                           \
    static int NAME(const void *data, size_t n, const ActionKind *k, uint64_t *outside) { \
        const BITS *bits = data;                                                          \
        BITS bad = 0;                                                                     \
        for (size_t i = 0; i < n; i++) bad |= (BITS)((bits[i] & MASK) == MASK);           \
        if (MASK && bad) return 0;                                                        \
        if (k->bounded) {                                                                 \
            const TYPE *x = data, low = (TYPE)k->LOW, high = (TYPE)k->HIGH;               \
            uint32_t count = 0;                                                           \
            for (size_t i = 0; i < n; i++) count += (uint32_t)((x[i] < low) | (x[i] > high));\
            *outside += count;                                                            \
        }                                                                                 \
        return 1;                                                                         \
    }
SCAN(scan_f, float, uint32_t, 0x7f800000u, low, high)
SCAN(scan_d, double, uint64_t, 0x7ff0000000000000ull, low, high)
SCAN(scan_q, int64_t, uint64_t, 0ull, low_q, high_q)

static int scan(const void *data, size_t bytes, const ActionKind *k, uint64_t *outside) {
    switch (k->kind) {
    case 'f': return scan_f(data, bytes / 4, k, outside);
    case 'd': return scan_d(data, bytes / 8, k, outside);
    case 'q': return scan_q(data, bytes / 8, k, outside);
    default: return 1;
    }
}

/* Flags of thousands of envs are looked at in each exchange: four lanes at once, for one sum waits for its own last add.
 * `Lane` may lie anywhere and alias anything, as a byte may. */
#define ANY_NONZERO(NAME, TARGET, BYTES)                                                                       \
    TARGET static int NAME(const uint8_t *p, size_t n) {                                                       \
        typedef uint64_t Lane __attribute__((vector_size(BYTES), aligned(1), may_alias));                      \
        Lane a = {0}, b = {0}, c = {0}, d = {0};                                                               \
        size_t i = 0;                                                                                          \
        for (; i + 4 * BYTES <= n; i += 4 * BYTES) {                                                           \
            const Lane *lane = (const Lane *)(p + i);                                                          \
            a |= lane[0];                                                                                      \
            b |= lane[1];                                                                                      \
            c |= lane[2];                                                                                      \
            d |= lane[3];                                                                                      \
        }                                                                                                      \
        a |= b | c | d;                                                                                        \
        uint64_t rest = 0;                                                                                     \
        for (int j = 0; j < BYTES / 8; j++) rest |= a[j];                                                      \
        for (; i < n; i++) rest |= p[i];                                                                       \
        return rest != 0;                                                                                      \
    }
ANY_NONZERO(any_nonzero_16, , 16)
#if defined(__x86_64__)
ANY_NONZERO(any_nonzero_32, __attribute__((target("avx2"))), 32)
#endif

static inline int any_nonzero(const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (n >= 1024 && __builtin_cpu_supports("avx2")) return any_nonzero_32(p, n);
#endif
    return any_nonzero_16(p, n);
}

/* ---- ClientChannel ---------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    uint64_t *frame_seq, *action_seq;
    uint32_t *frame_status, *park_engine;
    uint8_t *actions, *control, *terminated, *truncated;
    Waiter waiter;
    ActionKind kind;
    char format;            /* struct code the caller's array must have */
    Py_ssize_t action_bytes, shape[8];
    int ndim;
    uint32_t num_envs;
    int control_dirty, woke; /* woke: the engine was parked when the last actions came */
    uint64_t seq, received, frames, out_of_bounds;
    /* the fused exchange: what it returns, who takes over when all is not well, how long one call may wait */
    PyObject *frame, *slow, *seq_name, *ended_name;
    int64_t slice_ns;
    int ready; /* initialised, and whole */
} Client;

/* The channel of an object; NULL with TypeError for one whose initialisation never came or failed. */
static PyObject *not_ready(void) {
    PyErr_SetString(PyExc_TypeError, "this channel was never initialised");
    return NULL;
}

static inline Client *client_of(PyObject *self) {
    Client *c = (Client *)self;
    return c->ready ? c : (Client *)not_ready();
}

static int fits(const Client *c, const Py_buffer *v) {
    if (v->len != c->action_bytes || v->ndim != c->ndim || !v->format || v->format[0] != c->format || v->format[1])
        return 0;
    for (int i = 0; i < c->ndim; i++)
        if (v->shape[i] != c->shape[i]) return 0;
    return 1;
}

/* Publish one exchange: FRAME (done) or why not, before anything is visible to the engine. */
static int client_publish(Client *c, PyObject *actions, PyObject *control) {
    Py_buffer v;
    if (PyObject_GetBuffer(actions, &v, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
        PyErr_Clear();
        return UNFIT_ACTIONS;
    }
    int result = FRAME;
    uint64_t outside = 0;
    if (!fits(c, &v)) result = UNFIT_ACTIONS;
    else if (v.buf != c->actions) { /* in place there is nothing to copy, and the caller answers for the values */
        if (!scan(v.buf, (size_t)v.len, &c->kind, &outside)) result = NOT_FINITE;
        else memcpy(c->actions, v.buf, (size_t)v.len);
    }
    PyBuffer_Release(&v);
    if (result != FRAME) return result;
    if (control != Py_None) {
        if (PyObject_GetBuffer(control, &v, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
            PyErr_Clear();
            return UNFIT_CONTROL;
        }
        int fit = v.len == c->num_envs && v.ndim == 1 && v.itemsize == 1 && v.format && v.format[0] == 'B';
        if (fit) memcpy(c->control, v.buf, c->num_envs);
        PyBuffer_Release(&v);
        if (!fit) return UNFIT_CONTROL;
        c->control_dirty = 1;
    } else if (c->control_dirty) {
        memset(c->control, 0, c->num_envs);
        c->control_dirty = 0;
    }
    c->out_of_bounds += outside;
    __atomic_store_n(c->action_seq, ++c->seq, __ATOMIC_RELEASE);
    c->woke = wake(c->park_engine);
    return FRAME;
}

static int client_collect(Client *c, int64_t timeout_ns) {
    Watch w = {c->frame_seq, c->seq - 1, NULL, 0, NULL};
    int result = wait_change(&w, &c->waiter, timeout_ns, c->woke);
    if (result != 1) return result;
    if (load64(c->frame_seq) != c->seq) return OUT_OF_ORDER;
    c->received = c->seq;
    if (__atomic_load_n(c->frame_status, __ATOMIC_RELAXED)) return FRAME_REFUSED;
    int ended = any_nonzero(c->terminated, c->num_envs) || any_nonzero(c->truncated, c->num_envs);
    if (is_lost(c->view.buf)) return OUT_OF_ORDER; /* the caller finds out that it was truncated */
    c->frames++;
    return ended ? FRAME_ENDED : FRAME;
}

static PyObject *as_result(int result) { return result == -100 ? NULL : PyLong_FromLong(result); }

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

/* fuse(frame, slow, slice_ns): from now on exchange(actions) returns `frame` with seq and any_ended set, and leaves
 * whatever is no plain, successful exchange to slow(code, actions, control, deadline). */
static PyObject *client_fuse(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Client *c = client_of(self);
    if (!c) return NULL;
    if (n != 3) return PyErr_Format(PyExc_TypeError, "fuse(frame, slow, slice_ns)");
    long long slice = PyLong_AsLongLong(args[2]);
    if (slice == -1 && PyErr_Occurred()) return NULL;
    PyObject *frame = c->frame, *slow = c->slow;
    c->frame = Py_NewRef(args[0]);
    c->slow = Py_NewRef(args[1]);
    c->slice_ns = slice;
    Py_XDECREF(frame);
    Py_XDECREF(slow);
    Py_RETURN_NONE;
}

static PyObject *client_unfuse(PyObject *self, PyObject *unused) {
    Client *c = client_of(self);
    if (!c) return NULL;
    c->slice_ns = -1;
    Py_RETURN_NONE;
}

static int number_frame(Client *c, uint64_t seq) {
    PyObject *number = PyLong_FromUnsignedLongLong(seq);
    int failed = !number || PyObject_SetAttr(c->frame, c->seq_name, number);
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
                if (PyObject_SetAttr(c->frame, c->ended_name, result ? Py_True : Py_False)) return NULL;
                return Py_NewRef(c->frame);
            }
        }
    }
    PyObject *kind = NULL, *value = NULL, *trace = NULL;
    if (result == -100) PyErr_Fetch(&kind, &value, &trace); /* a signal: the exchange stays open, slow() notes that */
    PyObject *code = number_frame(c, c->frames) ? NULL : PyLong_FromLong(result); /* no new frame so far */
    PyObject *answer = code ? PyObject_CallFunctionObjArgs(c->slow, code, given[0], given[1], given[2], NULL) : NULL;
    Py_XDECREF(code);
    if (!kind) return answer;
    Py_XDECREF(answer);
    PyErr_Restore(kind, value, trace);
    return NULL;
}

static PyObject *client_frames(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->frames) : NULL;
}

static int client_traverse(PyObject *self, visitproc visit, void *arg) {
    Client *c = (Client *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->frame);
    Py_VISIT(c->slow);
    return 0;
}

static int client_clear(PyObject *self) {
    Client *c = (Client *)self;
    Py_CLEAR(c->frame);
    Py_CLEAR(c->slow);
    return 0;
}

static PyObject *client_seq(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->seq) : NULL;
}

static PyObject *client_outside(PyObject *self, void *closure) {
    Client *c = client_of(self);
    return c ? PyLong_FromUnsignedLongLong(c->out_of_bounds) : NULL;
}

/* Check that [offset, offset + size) lies inside the view and is aligned; the pointer, or NULL with ValueError. */
static void *at(const Py_buffer *view, unsigned long long offset, unsigned long long size, unsigned alignment) {
    if (offset > (unsigned long long)view->len || size > (unsigned long long)view->len - offset || offset % alignment) {
        PyErr_Format(PyExc_ValueError, "offset %llu (+%llu) does not lie in the %zd bytes mapped", offset, size,
                     view->len);
        return NULL;
    }
    return (uint8_t *)view->buf + offset;
}

static void channel_dealloc(PyObject *self) {
    /* both channels start with the object head and the view */
    Client *c = (Client *)self;
    if (c->view.obj) PyBuffer_Release(&c->view);
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ClientChannel(mapping, frame_seq, frame_status, action_seq, park_engine, park_frame, actions, control, terminated,
 *               truncated, num_envs, shape, format, low, high, strategy, wakes, pidfd)
 * Offsets in bytes; shape of a batch of actions; low/high None or a number that `format` holds. */
static int client_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    Client *c = (Client *)self;
    PyObject *mapping, *shape, *low, *high;
    unsigned long long frame, status, action, park_engine, park_frame, actions, control, terminated, truncated;
    unsigned int num_envs;
    const char *format;
    int strategy, wakes, pidfd;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "ClientChannel takes positional arguments");
        return -1;
    }
    if (c->view.obj) {
        PyErr_SetString(PyExc_TypeError, "ClientChannel is initialised once");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OKKKKKKKKKIO!sOOiii", &mapping, &frame, &status, &action, &park_engine, &park_frame,
                          &actions, &control, &terminated, &truncated, &num_envs, &PyTuple_Type, &shape, &format, &low,
                          &high, &strategy, &wakes, &pidfd))
        return -1;
    if (PyObject_GetBuffer(mapping, &c->view, PyBUF_WRITABLE)) return -1;
    Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim < 1 || ndim > 8) {
        PyErr_SetString(PyExc_ValueError, "actions have 1 to 8 axes");
        return -1;
    }
    c->ndim = (int)ndim;
    c->format = format[0];
    Py_ssize_t itemsize = format[0] == 'f' || format[0] == 'i' || format[0] == 'I'                          ? 4
                          : format[0] == 'd' || format[0] == 'l' || format[0] == 'L'                        ? 8
                          : format[0] == 'h' || format[0] == 'H'                                            ? 2
                                                                                                            : 1;
    c->action_bytes = itemsize;
    for (int i = 0; i < c->ndim; i++) {
        c->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
        if (c->shape[i] < 1) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "every axis has at least one element");
            return -1;
        }
        c->action_bytes *= c->shape[i];
    }
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
    c->num_envs = num_envs;
    c->waiter = (Waiter){strategy, wakes & PEER_WAKES, pidfd, NULL, 0};
    if (!(c->frame_seq = at(&c->view, frame, 8, 8)) || !(c->frame_status = at(&c->view, status, 4, 4)) ||
        !(c->action_seq = at(&c->view, action, 8, 8)) || !(c->park_engine = at(&c->view, park_engine, 4, 4)) ||
        !(c->waiter.park = at(&c->view, park_frame, 4, 4)) ||
        !(c->actions = at(&c->view, actions, (unsigned long long)c->action_bytes, 1)) ||
        !(c->control = at(&c->view, control, num_envs, 1)) ||
        !(c->terminated = at(&c->view, terminated, num_envs, 1)) ||
        !(c->truncated = at(&c->view, truncated, num_envs, 1)))
        return -1;
    c->control_dirty = 1;
    c->seq = c->received = load64(c->action_seq);
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
    channel_dealloc(self);
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
                                      {"frames", client_frames, NULL, "Frames received.", NULL},
                                      {"out_of_bounds", client_outside, NULL, "Values outside the bounds.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot client_slots[] = {{Py_tp_init, client_init},
                                     {Py_tp_dealloc, client_dealloc},
                                     {Py_tp_traverse, client_traverse},
                                     {Py_tp_clear, client_clear},
                                     {Py_tp_methods, client_methods},
                                     {Py_tp_getset, client_getset},
                                     {Py_tp_doc, "The client's end of the step counters; see atomics.py."},
                                     {0, NULL}};
static PyType_Spec client_spec = {"lucky_transport.shm._atomics.ClientChannel", sizeof(Client), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, client_slots};

/* ---- EngineChannel ---------------------------------------------------------------------------------------------- */

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
    int rested, ready;
} EngineEnd;

static inline EngineEnd *engine_of(PyObject *self) {
    EngineEnd *e = (EngineEnd *)self;
    return e->ready ? e : (EngineEnd *)not_ready();
}

static Watch engine_watch(EngineEnd *e) {
    __atomic_store_n(e->heartbeat, *e->heartbeat + 1, __ATOMIC_RELAXED); /* one writer */
    return (Watch){e->action_seq, e->seq, e->commands, e->commands_read, &e->interrupted};
}

/* What there is to do: HAS_* bits, or OUT_OF_ORDER. */
static int engine_found(EngineEnd *e) {
    e->rested = 0;
    /* actions first: commands written before them are then in the ring, and are drained before the step */
    uint64_t actions = load64(e->action_seq);
    int found = load32(e->commands) != e->commands_read ? HAS_COMMANDS : 0;
    if (actions == e->seq + 1) {
        found |= HAS_ACTIONS;
        if (any_nonzero(e->control, e->num_envs)) found |= HAS_CONTROL;
    } else if (actions != e->seq) {
        return OUT_OF_ORDER;
    }
    return found;
}

/* `found`, or TIMED_OUT after interrupt(): nothing is consumed yet, so what there is is found again. */
static int engine_take_interrupt(EngineEnd *e, int found) {
    return __atomic_exchange_n(&e->interrupted, 0, __ATOMIC_ACQ_REL) && found >= 0 ? TIMED_OUT : found;
}

/* One slice of waiting, and what was found; -100 with a Python exception. */
static int engine_wait(EngineEnd *e, int64_t ns) {
    Watch w = engine_watch(e);
    int result = wait_change(&w, &e->waiter, ns, e->rested); /* an idle engine parks at once until something happens */
    if (result == 1) return engine_found(e);
    e->rested = 1;
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
    __atomic_store_n(e->frame_status, status, __ATOMIC_RELAXED);
    __atomic_store_n(e->frame_seq, ++e->seq, __ATOMIC_RELEASE);
    wake(e->park_frame);
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
        Watch w = engine_watch(e);
        if (!e->rested && changed_at_once(&w, &e->waiter)) {
            learn(&e->waiter, 1);
            found = engine_found(e);
        } else {
            if (locked && call_nothing(args[2])) {
                locked = 0;
                found = -100;
                break;
            }
            locked = 0;
            found = engine_wait(e, ns);
        }
        found = engine_take_interrupt(e, found);
        if (found != HAS_ACTIONS) break;
        if (!locked && call_nothing(args[1])) {
            found = -100;
            break;
        }
        locked = 1;
        PyObject *stepped = PyObject_Call(args[0], plain, NULL);
        if (!stepped) {
            found = -100;
            break;
        }
        Py_DECREF(stepped);
        engine_announce(e, 0);
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
    wake(e->waiter.park);
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

static PyObject *engine_peer(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    EngineEnd *e = engine_of(self);
    if (!e) return NULL;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "set_peer(pidfd, peer)");
    e->waiter.pidfd = (int)PyLong_AsLong(args[0]);
    e->waiter.wakes = (int)PyLong_AsLong(args[1]) & PEER_WAKES;
    if (PyErr_Occurred()) return NULL;
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

/* EngineChannel(mapping, frame_seq, frame_status, action_seq, heartbeat, park_engine, park_frame, commands, control,
 *               num_envs, strategy) */
static int engine_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    EngineEnd *e = (EngineEnd *)self;
    PyObject *mapping;
    unsigned long long frame, status, action, heartbeat, park_engine, park_frame, commands, control;
    unsigned int num_envs;
    int strategy;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "EngineChannel takes positional arguments");
        return -1;
    }
    if (e->view.obj) {
        PyErr_SetString(PyExc_TypeError, "EngineChannel is initialised once");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OKKKKKKKKIi", &mapping, &frame, &status, &action, &heartbeat, &park_engine,
                          &park_frame, &commands, &control, &num_envs, &strategy))
        return -1;
    if (PyObject_GetBuffer(mapping, &e->view, PyBUF_WRITABLE)) return -1;
    e->num_envs = num_envs;
    e->waiter = (Waiter){strategy, 1, -1, NULL, 0};
    if (!(e->frame_seq = at(&e->view, frame, 8, 8)) || !(e->frame_status = at(&e->view, status, 4, 4)) ||
        !(e->action_seq = at(&e->view, action, 8, 8)) || !(e->heartbeat = at(&e->view, heartbeat, 8, 8)) ||
        !(e->waiter.park = at(&e->view, park_engine, 4, 4)) || !(e->park_frame = at(&e->view, park_frame, 4, 4)) ||
        !(e->commands = at(&e->view, commands, 4, 4)) || !(e->control = at(&e->view, control, num_envs, 1)))
        return -1;
    e->seq = load64(e->frame_seq);
    e->ready = 1;
    return 0;
}

static PyMethodDef engine_methods[] = {
    {"next", engine_next, METH_O, "Wait at most timeout_ns (one slice) for actions or commands."},
    {"publish", engine_publish, METH_O, "Announce the frame, or status != 0: there is none."},
    {"serve", (PyCFunction)(void (*)(void))engine_serve, METH_FASTCALL, "Answer plain actions until something else."},
    {"interrupt", engine_interrupt, METH_NOARGS, "Make next return at once, and serve after its present step."},
    {"commands_read", engine_commands, METH_O, "Commands up to this ring position are read."},
    {"set_peer", (PyCFunction)(void (*)(void))engine_peer, METH_FASTCALL, "The client's pidfd, and what it does (PEER_* bits)."},
    {"resync", engine_resync, METH_NOARGS, "Drop an exchange that a dead client left behind."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef engine_getset[] = {{"seq", engine_seq, NULL, "Frames written.", NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot engine_slots[] = {{Py_tp_init, engine_init},
                                     {Py_tp_dealloc, channel_dealloc},
                                     {Py_tp_methods, engine_methods},
                                     {Py_tp_getset, engine_getset},
                                     {Py_tp_doc, "The engine's end of the step counters; see atomics.py."},
                                     {0, NULL}};
static PyType_Spec engine_spec = {"lucky_transport.shm._atomics.EngineChannel", sizeof(EngineEnd), 0,
                                  Py_TPFLAGS_DEFAULT, engine_slots};

/* ---- words: single ordered accesses, for rings and park words --------------------------------------------------- */

static int view_of(PyObject *mapping, Py_buffer *view, int flags, unsigned long long offset, unsigned size,
                   void **place) {
    if (PyObject_GetBuffer(mapping, view, flags)) return -1;
    *place = at(view, offset, size, size);
    if (*place) return 0;
    PyBuffer_Release(view);
    return -1;
}

static int view_at(PyObject *mapping, Py_buffer *view, unsigned long long offset, unsigned size, void **place) {
    return view_of(mapping, view, PyBUF_WRITABLE, offset, size, place);
}

static PyObject *words_load64(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OK", &mapping, &offset) || view_of(mapping, &view, PyBUF_SIMPLE, offset, 8, &place))
        return NULL;
    uint64_t value = load64(place);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *words_store64(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset, value;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OKK", &mapping, &offset, &value) || view_at(mapping, &view, offset, 8, &place))
        return NULL;
    __atomic_store_n((uint64_t *)place, value, __ATOMIC_RELEASE);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *words_load32(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OK", &mapping, &offset) || view_of(mapping, &view, PyBUF_SIMPLE, offset, 4, &place))
        return NULL;
    uint32_t value = load32(place);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(value);
}

static PyObject *words_store32(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    unsigned int value;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OKI", &mapping, &offset, &value) || view_at(mapping, &view, offset, 4, &place))
        return NULL;
    __atomic_store_n((uint32_t *)place, value, __ATOMIC_RELEASE);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *words_wake(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset;
    Py_buffer view;
    void *place;
    if (!PyArg_ParseTuple(args, "OK", &mapping, &offset) || view_at(mapping, &view, offset, 4, &place)) return NULL;
    wake(place);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* wait32(mapping, offset, old, park_offset, strategy, wakes, pidfd, timeout_ns): 1, TIMED_OUT or PEER_GONE */
static PyObject *words_wait32(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long offset, park_offset;
    unsigned int old;
    int strategy, wakes, pidfd;
    long long timeout;
    Py_buffer view;
    void *place, *park;
    if (!PyArg_ParseTuple(args, "OKIKiiiL", &mapping, &offset, &old, &park_offset, &strategy, &wakes, &pidfd, &timeout) ||
        view_at(mapping, &view, offset, 4, &place))
        return NULL;
    int result = -100;
    if ((park = at(&view, park_offset, 4, 4))) {
        Watch w = {NULL, 0, place, old, NULL};
        Waiter me = {strategy, wakes & PEER_WAKES, pidfd, park, 0};
        result = wait_change(&w, &me, timeout, 0);
    }
    PyBuffer_Release(&view);
    return as_result(result);
}

#include "_slot.h"
#include "_ring.h"

/* ---- limits: what the machine gives two native processes -------------------------------------------------------- */

/* echo(mapping, a, b, park_a, park_b, strategy, rounds, answer, bytes): answer each bump of a with one of b, after
 * copying so many bytes to `answer` */
static PyObject *limits_echo(PyObject *module, PyObject *args) {
    PyObject *mapping;
    unsigned long long a, b, park_a, park_b, rounds, answer, bytes;
    int strategy;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "OKKKKiKKK", &mapping, &a, &b, &park_a, &park_b, &strategy, &rounds, &answer, &bytes))
        return NULL;
    if (PyObject_GetBuffer(mapping, &view, PyBUF_WRITABLE)) return NULL;
    void *to = at(&view, answer, bytes, 1), *from = PyMem_Calloc(bytes + 1, 1);
    uint64_t *in = at(&view, a, 8, 8), *out = at(&view, b, 8, 8);
    uint32_t *mine = at(&view, park_a, 4, 4), *theirs = at(&view, park_b, 4, 4);
    if (in && out && mine && theirs && to && from) {
        Waiter me = {strategy, 1, -1, mine, 0};
        Py_BEGIN_ALLOW_THREADS
        int64_t patience = now_ns() + 30000000000ll;
        for (uint64_t i = 1; i <= rounds && now_ns() < patience;) {
            Watch w = {in, i - 1, NULL, 0, NULL};
            if (strategy == WAIT_SPIN) {
                for (uint32_t looks = 0; !changed(&w); relax())
                    if (!(++looks & 0xfffff) && now_ns() > patience) break;
                if (!changed(&w)) break;
            } else if (wait_slice(&w, &me, patience, 0) != 1) {
                continue;
            }
            memcpy(to, from, (size_t)bytes);
            __atomic_store_n(out, i++, __ATOMIC_RELEASE);
            wake(theirs);
        }
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(from);
    PyBuffer_Release(&view);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* ping(mapping, a, b, park_a, park_b, strategy, times, request, bytes): fill the int64 buffer `times` with round trips
 * in ns, each after copying so many bytes to `request` */
static PyObject *limits_ping(PyObject *module, PyObject *args) {
    PyObject *mapping, *times;
    unsigned long long a, b, park_a, park_b, request, bytes;
    int strategy;
    Py_buffer view, out;
    if (!PyArg_ParseTuple(args, "OKKKKiOKK", &mapping, &a, &b, &park_a, &park_b, &strategy, &times, &request, &bytes))
        return NULL;
    if (PyObject_GetBuffer(mapping, &view, PyBUF_WRITABLE)) return NULL;
    if (PyObject_GetBuffer(times, &out, PyBUF_WRITABLE)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    void *to = at(&view, request, bytes, 1), *from = PyMem_Calloc(bytes + 1, 1);
    uint64_t *call = at(&view, a, 8, 8), *answer = at(&view, b, 8, 8);
    uint32_t *theirs = at(&view, park_a, 4, 4), *mine = at(&view, park_b, 4, 4);
    uint64_t done = 0;
    if (call && answer && mine && theirs && to && from) {
        Waiter me = {strategy, 1, -1, mine, 0};
        int64_t *ns = out.buf;
        uint64_t rounds = (uint64_t)out.len / 8;
        Py_BEGIN_ALLOW_THREADS
        int64_t patience = now_ns() + 30000000000ll;
        for (uint64_t i = 1; i <= rounds; i++) {
            Watch w = {answer, i - 1, NULL, 0, NULL};
            int64_t start = now_ns();
            memcpy(to, from, (size_t)bytes);
            __atomic_store_n(call, i, __ATOMIC_RELEASE);
            wake(theirs);
            if (strategy == WAIT_SPIN) {
                for (uint32_t looks = 0; !changed(&w); relax())
                    if (!(++looks & 0xfffff) && now_ns() > patience) break;
            } else {
                while (wait_slice(&w, &me, patience, 0) != 1 && now_ns() < patience);
            }
            if (!changed(&w)) break;
            ns[i - 1] = now_ns() - start;
            done = i;
        }
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(from);
    PyBuffer_Release(&out);
    PyBuffer_Release(&view);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(done);
}

/* copied(view) -> bytes: other threads run meanwhile, which a picture of some megabytes gives time for. */
static PyObject *copied(PyObject *self, PyObject *source) {
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)) return NULL;
    PyObject *copy = PyBytes_FromStringAndSize(NULL, view.len);
    char *to = copy ? PyBytes_AsString(copy) : NULL;
    if (to) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, view.buf, (size_t)view.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return copy;
}

static PyMethodDef module_methods[] = {
    {"load32", words_load32, METH_VARARGS, "Acquire-load a u32."},
    {"store32", words_store32, METH_VARARGS, "Release-store a u32."},
    {"load64", words_load64, METH_VARARGS, "Acquire-load a u64."},
    {"store64", words_store64, METH_VARARGS, "Release-store a u64."},
    {"guard", truncation_guard, METH_O, "Have the mapping read zeros where its file was truncated."},
    {"unguard", truncation_unguard, METH_O, "No more; before it is unmapped."},
    {"lost", truncation_lost, METH_O, "True when the mapping was replaced by zeros."},
    {"wake", words_wake, METH_VARARGS, "Wake whoever is parked on the word at this offset."},
    {"wait32", words_wait32, METH_VARARGS, "Wait until the u32 leaves a value."},
    {"spin", (PyCFunction)(void (*)(void))ring_spin, METH_FASTCALL, "Look at several rings' ends for a while."},
    {"copied", copied, METH_O, "Return the bytes of a buffer, without holding other threads up."},
    {"echo", limits_echo, METH_VARARGS, "Benchmark: answer pings."},
    {"ping", limits_ping, METH_VARARGS, "Benchmark: time pings."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_atomics", "See atomics.py.", -1, module_methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__atomics(void) {
    PyObject *module = PyModule_Create(&module_def);
    if (!module) return NULL;
    PyObject *client = PyType_FromSpec(&client_spec), *engine = PyType_FromSpec(&engine_spec);
    PyObject *writer = PyType_FromSpec(&writer_spec), *reader = PyType_FromSpec(&reader_spec);
    PyObject *slot = PyType_FromSpec(&slot_spec);
    if (!client || !engine || !writer || !reader || !slot || PyModule_AddObject(module, "ClientChannel", client) ||
        PyModule_AddObject(module, "EngineChannel", engine) || PyModule_AddObject(module, "RingWriter", writer) ||
        PyModule_AddObject(module, "RingReader", reader) ||
        PyModule_AddObject(module, "Slot", slot) ||
        PyModule_AddIntConstant(module, "GUARDS", 1) || PyModule_AddIntConstant(module, "VERSION", ATOMICS_VERSION)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
