/* Fault points: where the crash tests end or stop an engine, inside a publish. A point names the step that has just been
 * made. An engine that is built without LUCKY_FAULT_POINTS, as every one outside of those tests is, has nothing of them. */
#ifndef LUCKY_FAULT_H
#define LUCKY_FAULT_H

#include <string.h>

#ifdef LUCKY_FAULT_POINTS
#ifdef __cplusplus
extern "C"
#endif
void lucky_fault_reached(const char *point);
#define LUCKY_FAULT(point) lucky_fault_reached(point)
#else
#define LUCKY_FAULT(point) ((void)0)
#endif

/* Copy, with a point where half of it is done. */
static inline void lucky_copy(void *to, const void *from, size_t size, const char *half) {
#ifdef LUCKY_FAULT_POINTS
    memcpy(to, from, size / 2);
    LUCKY_FAULT(half);
    memcpy((char *)to + size / 2, (const char *)from + size / 2, size - size / 2);
#else
    (void)half;
    memcpy(to, from, size);
#endif
}

#endif
