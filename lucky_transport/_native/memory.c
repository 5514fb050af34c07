/* Pages for shared memory, malloc's memory for long messages, and copies of them without the GIL; see memory.h. */
#include "memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SHORTEST_KEPT (16u << 10)
#define LONGEST_KEPT (64u << 20)
#define MALLOC_KEEPS (128u << 10) /* glibc, until a longer block was freed */
#define GLIBC_KEEPS ((32u << 20) - (64u << 10)) /* it adapts to no longer block by itself */

int depopulate(uint8_t *from, uint8_t *end) { return !madvise(from, (size_t)(end - from), MADV_REMOVE); }

int populate(uint8_t *from, uint8_t *end) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)from & ~(page - 1);
    if (from >= end || !madvise((void *)start, (uintptr_t)end - start, MADV_POPULATE_WRITE) || errno == EINVAL) return 1;
    start = aligned((uintptr_t)from, page); /* it has got some of them */
    uintptr_t behind = (uintptr_t)end & ~(page - 1);
    if (start < behind) depopulate((uint8_t *)start, (uint8_t *)behind);
    return 0;
}

void tune_malloc(uint64_t length) {
    static uint64_t longest;
    if (length <= longest || length < SHORTEST_KEPT) return;
    longest = length;
    uint64_t together = 4 * (length < LONGEST_KEPT ? length : LONGEST_KEPT) + MALLOC_KEEPS; /* that a call holds */
    /* What glibc adapts to by itself: it sees a block of that length freed. */
    void *volatile block = malloc((size_t)(together < GLIBC_KEEPS ? together : GLIBC_KEEPS));
    free(block);
#ifdef M_TOP_PAD
    /* What is longer it has to be told. */
    if (together < GLIBC_KEEPS || getenv("MALLOC_TRIM_THRESHOLD_") || getenv("MALLOC_MMAP_THRESHOLD_")) return;
    if (mallopt(M_MMAP_THRESHOLD, (int)together) && mallopt(M_TRIM_THRESHOLD, 2 * (int)together))
        mallopt(M_TOP_PAD, LONGEST_KEPT); /* of a thread's heap, which is as long */
#endif
}

PyObject *copy_out(Ring *r, const uint8_t *from, uint64_t size) {
    tune_malloc(size);
    if (size < COPY_WITHOUT_GIL) return PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)size);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!bytes) return NULL;
    char *to = PyBytes_AsString(bytes);
    PyThreadState *thread = leave_gil(r);
    memcpy(to, from, size);
    regain_gil(r, thread);
    r->busy = RING_IDLE;
    return bytes;
}
