/* Whole waits with the GIL released; see wait.h. */
#include "wait.h"

#include <fcntl.h>

/* What a slice comes to beside 1 and 0: woken, though nothing has changed. */
#define CALLED 2

/* One slice of a wait, without the GIL: 1 changed, 0 slice over, CALLED. `skip_spin` skips the spinning phases. */
static int wait_slice(const lucky_watch *w, Waiter *me, int64_t until, int skip_spin) {
    int64_t start = lucky_now_ns(), t = start;
    int shares = lucky_shares_cpu(me->park);
    int spins = me->budget.strategy == WAIT_SPIN || (me->budget.strategy != WAIT_BLOCK && !skip_spin && !shares);
    int yields = !me->budget.without_yields;
    if (!yields) me->budget.without_yields--;
    if (spins) {
        int64_t pause_end = me->budget.strategy == WAIT_OVERSUBSCRIBED || shares ? start : start + PAUSE_NS;
        int64_t yield_end = start + (me->budget.strategy == WAIT_SPIN ? SPIN_SLICE_NS
                                     : me->budget.strategy == WAIT_ADAPTIVE && me->budget.score == SCORE_SOON ? SOON_NS : YIELD_NS);
        while (t < yield_end && t < until) {
            for (int i = 0; i < PAUSES; i++) {
                if (lucky_changed(w)) return 1;
                lucky_pause();
            }
            int64_t before = t = lucky_now_ns();
            if (t < pause_end) continue;
            if (!yields) break;
            sched_yield();
            t = lucky_now_ns();
            if (t - before > LOST_CORE_NS && me->budget.strategy != WAIT_SPIN) me->budget.without_yields = LOST_CORE_WAITS;
        }
    }
    if (lucky_changed(w)) return 1;
    if (me->budget.strategy == WAIT_SPIN) return 0;
    int is_free = me->is_called && me->lock_fd < 0; /* no lock to look at, and who comes wakes us */
    int64_t end = is_free || until < t + SLICE_NS ? until : t + SLICE_NS;
    if (me->wakes) {
        if (end > t && !lucky_park(w, me->park, end - t)) return 0;
        if (end > t && me->is_called && !lucky_changed(w)) return CALLED;
    } else {
        while (t < end && !lucky_changed(w)) {
            struct timespec sleep = {0, end - t < POLL_NS ? end - t : POLL_NS};
            nanosleep(&sleep, NULL);
            t = lucky_now_ns();
        }
    }
    return lucky_changed(w);
}

/* The peer holds its lock, as far as can be seen here. */
static int holds_lock(const Waiter *me) {
    struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = me->lock_byte, .l_len = 1};
    return me->lock_fd < 0 || (!fcntl(me->lock_fd, F_OFD_GETLK, &held) && held.l_type != F_UNLCK);
}

int wait_change(const lucky_watch *w, Waiter *me, int64_t timeout_ns, int skip_spin) {
    if (me->budget.strategy == WAIT_SPIN) skip_spin = 0;
    else if (me->budget.score == SCORE_LATE) skip_spin = 1;
    int result = skip_spin ? lucky_changed(w) : changed_at_once(w, me);
    if (result) {
        learn(&me->budget, 1);
        return result;
    }
    int64_t start = lucky_now_ns(), t = start, until = later(start, timeout_ns);
    do {
        PyThreadState *thread = PyEval_SaveThread();
        result = wait_slice(w, me, until, skip_spin);
        PyEval_RestoreThread(thread);
        t = lucky_now_ns();
        if (result != 1 && PyErr_CheckSignals()) return INTERRUPTED;
        skip_spin = me->budget.strategy != WAIT_SPIN;
    } while (!result && t < until && !is_lost(me->park) && holds_lock(me)); /* then the caller is told at once */
    if (result == 1 || t - start > SOON_NS) learn(&me->budget, t - start <= SOON_NS);
    return result == 1 ? 1 : TIMED_OUT;
}

/* ---- the spin budget of a side that waits in Python ------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    SpinBudget budget;
} SpinBudgetObject;

static int budget_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    SpinBudgetObject *b = (SpinBudgetObject *)self;
    int strategy;
    if (!PyArg_ParseTuple(args, "i", &strategy)) return -1;
    b->budget = (SpinBudget){strategy, 0};
    return 0;
}

static void budget_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

PyObject *spin_budget_ns(const SpinBudget *b) {
    if (b->strategy != WAIT_ADAPTIVE) return PyLong_FromLong(SPIN_SLICE_NS);
    if (b->without_yields || b->score == SCORE_LATE) return PyLong_FromLong(0);
    return PyLong_FromLong(b->score == SCORE_SOON ? SOON_NS : YIELD_NS);
}

static PyObject *budget_ns(PyObject *self, void *closure) { return spin_budget_ns(&((SpinBudgetObject *)self)->budget); }

static PyObject *budget_learn(PyObject *self, PyObject *waited) {
    long long ns = PyLong_AsLongLong(waited);
    if (ns == -1 && PyErr_Occurred()) return NULL;
    learn(&((SpinBudgetObject *)self)->budget, ns <= SOON_NS);
    Py_RETURN_NONE;
}

static PyMethodDef budget_methods[] = {
    {"learn", budget_learn, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef budget_getset[] = {
    {"ns", budget_ns, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot budget_slots[] = {
    {Py_tp_init, budget_init},
    {Py_tp_dealloc, budget_dealloc},
    {Py_tp_methods, budget_methods},
    {Py_tp_getset, budget_getset},
    {0, NULL},
};
PyType_Spec spin_budget_spec = {
    "lucky_transport._native.SpinBudget", sizeof(SpinBudgetObject), 0, Py_TPFLAGS_DEFAULT, budget_slots,
};
