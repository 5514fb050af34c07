/* The SIGBUS handler behind truncation.h.
 *
 * Touching a page beyond the end of its file is SIGBUS, in whatever code does it: ours, NumPy's or the C library's. The
 * handler replaces the whole mapping by zero pages and returns, so that the access is made again and succeeds. Every
 * other SIGBUS goes to the handler that was there before. mapping.py says what the marks mean.
 *
 * The handler calls nothing but system calls and walks the table without a lock: an entry's `version` is odd while the
 * entry changes, and a reader that saw it change looks elsewhere (an entry that changes maps nothing). Entries are
 * written with the GIL held and never freed. A forked child inherits handler, table and mappings, which are its own.
 */
#include "truncation.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GUARDS_PER_CHUNK 64

typedef struct {
    uint32_t version;
    int used, lost;
    uintptr_t start, end;
} Guard;

typedef struct GuardChunk {
    Guard guards[GUARDS_PER_CHUNK];
    struct GuardChunk *next;
} GuardChunk;

static GuardChunk guard_chunks;
uint32_t mappings_lost;
static struct sigaction sigbus_before;
static pid_t sigbus_chaining; /* the thread that runs the handler that was there before; 0: none */

/* Replace the mapping of a guard by zero pages: 1 when that was done, now or before. */
static int guard_replace(Guard *g, uintptr_t start, uintptr_t end) {
    if (__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE)) return 1;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (mmap((void *)start, end - start, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return 0;
    __atomic_store_n(&g->lost, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&mappings_lost, 1, __ATOMIC_RELEASE);
    return 1;
}

/* What an entry guards now: 0 when nothing. */
static int guard_range(const Guard *g, uintptr_t *start, uintptr_t *end) {
    uint32_t version = __atomic_load_n(&g->version, __ATOMIC_ACQUIRE);
    *start = __atomic_load_n(&g->start, __ATOMIC_RELAXED);
    *end = __atomic_load_n(&g->end, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !(version & 1) && __atomic_load_n(&g->version, __ATOMIC_RELAXED) == version && *start;
}

/* 1 when the page of an address cannot be read: the kernel copies a signal mask from it before it refuses `how`. */
static int unreadable(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, ~0, address & ~(uintptr_t)7, NULL, 8) && errno == EFAULT;
}

/* Replace what was hit: the mapping around `address`, or with 0 every mapping whose last page is gone. */
static int guards_replace(uintptr_t address) {
    int replaced = 0;
    for (GuardChunk *chunk = &guard_chunks; chunk; chunk = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE))
        for (int i = 0; i < GUARDS_PER_CHUNK; i++) {
            uintptr_t start, end;
            Guard *g = &chunk->guards[i];
            if (!guard_range(g, &start, &end)) continue;
            if (address ? address >= start && address < end : unreadable(end - 1))
                replaced |= guard_replace(g, start, end);
        }
    return replaced;
}

static void sigbus_default(int number) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(number, &standard, NULL);
}

/* Leave the signal to the handler that was there before. One that raises the signal again (faulthandler does) comes
 * back here in the same thread, and is left to the kernel then. */
static void sigbus_chain(int number, siginfo_t *info, void *context) {
    pid_t none = 0, me = (pid_t)syscall(SYS_gettid);
    int is_fault = info->si_code > 0 && info->si_code != SI_KERNEL;
    if (sigbus_before.sa_handler == SIG_IGN && !is_fault) return;
    if (sigbus_before.sa_handler == SIG_DFL || sigbus_before.sa_handler == SIG_IGN ||
        !__atomic_compare_exchange_n(&sigbus_chaining, &none, me, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        sigbus_default(number);
        if (!is_fault) raise(number); /* a fault comes again by itself when this returns */
        return;
    }
    if (sigbus_before.sa_flags & SA_SIGINFO) sigbus_before.sa_sigaction(number, info, context);
    else sigbus_before.sa_handler(number);
    __atomic_store_n(&sigbus_chaining, 0, __ATOMIC_RELEASE);
}

static void sigbus_handler(int number, siginfo_t *info, void *context) {
    int before = errno, handled;
    if (info->si_code == BUS_ADRERR) handled = guards_replace((uintptr_t)info->si_addr);
    /* A handler that was set after ours saw the fault first and raised the signal for us: the fault comes again. */
    else handled = (info->si_code == SI_TKILL || info->si_code == SI_USER) && info->si_pid == getpid() && guards_replace(0);
    if (!handled) sigbus_chain(number, info, context);
    errno = before;
}

/* Have our handler in place: whatever was set meanwhile is the one before it now. -1 with OSError. */
static int sigbus_install(void) {
    struct sigaction now, ours = {.sa_sigaction = sigbus_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&ours.sa_mask);
    if (!sigaction(SIGBUS, NULL, &now)) {
        if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == sigbus_handler) return 0;
        sigbus_before = now;
        if (!sigaction(SIGBUS, &ours, NULL)) return 0;
    }
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

static Guard *guard_free(void) {
    for (GuardChunk *chunk = &guard_chunks;; chunk = chunk->next) {
        for (int i = 0; i < GUARDS_PER_CHUNK; i++)
            if (!chunk->guards[i].used) return &chunk->guards[i];
        if (chunk->next) continue;
        GuardChunk *more = calloc(1, sizeof *more);
        if (!more) return NULL;
        __atomic_store_n(&chunk->next, more, __ATOMIC_RELEASE);
    }
}

static void guard_set(Guard *g, uintptr_t start, uintptr_t end, int lost) {
    __atomic_store_n(&g->version, g->version + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&g->start, start, __ATOMIC_RELAXED);
    __atomic_store_n(&g->end, end, __ATOMIC_RELAXED);
    __atomic_store_n(&g->lost, lost, __ATOMIC_RELAXED);
    __atomic_store_n(&g->version, g->version + 1, __ATOMIC_RELEASE);
}

/* The guard of the mapping in which an address lies; NULL when it has none. */
static Guard *guard_at(const void *address) {
    for (GuardChunk *chunk = &guard_chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < GUARDS_PER_CHUNK; i++) {
            Guard *g = &chunk->guards[i];
            if (g->used && (uintptr_t)address >= g->start && (uintptr_t)address < g->end) return g;
        }
    return NULL;
}

int is_in_lost_mapping(const void *address) {
    const Guard *g = guard_at(address);
    return g && __atomic_load_n(&g->lost, __ATOMIC_ACQUIRE);
}

/* Where a whole mapping begins and ends, in pages; -1 with an exception. */
static int mapping_range(PyObject *mapping, uintptr_t *start, uintptr_t *end) {
    Py_buffer view;
    if (PyObject_GetBuffer(mapping, &view, PyBUF_SIMPLE)) return -1;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    *start = (uintptr_t)view.buf;
    *end = (*start + (uintptr_t)view.len + page - 1) & ~(page - 1);
    PyBuffer_Release(&view);
    if (!(*start % page)) return 0;
    PyErr_SetString(PyExc_ValueError, "only whole mappings can be guarded");
    return -1;
}

/* guard(mapping, lost=False) */
static PyObject *truncation_guard(PyObject *module, PyObject *args) {
    PyObject *mapping;
    uintptr_t start, end;
    int lost = 0;
    if (!PyArg_ParseTuple(args, "O|p", &mapping, &lost) || mapping_range(mapping, &start, &end) || sigbus_install()) return NULL;
    Guard *g = guard_free();
    if (!g) return PyErr_NoMemory();
    g->used = 1;
    guard_set(g, start, end, lost);
    Py_RETURN_NONE;
}

static PyObject *truncation_unguard(PyObject *module, PyObject *mapping) {
    uintptr_t start, end;
    if (mapping_range(mapping, &start, &end)) return NULL;
    Guard *g = guard_at((void *)start);
    if (g) {
        guard_set(g, 0, 0, 0);
        g->used = 0;
    }
    Py_RETURN_NONE;
}

static PyObject *truncation_lost(PyObject *module, PyObject *mapping) {
    if (!__atomic_load_n(&mappings_lost, __ATOMIC_ACQUIRE)) Py_RETURN_FALSE;
    uintptr_t start, end;
    if (mapping_range(mapping, &start, &end)) return NULL;
    return PyBool_FromLong(is_lost((void *)start));
}

PyMethodDef truncation_methods[] = {
    {"guard", truncation_guard, METH_VARARGS, NULL},
    {"unguard", truncation_unguard, METH_O, NULL},
    {"lost", truncation_lost, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
