/* Fault points: where the crash tests end or stop this process, inside a publish. A module that is built without
 * LUCKY_FAULT_POINTS, as every released one is, has nothing of them.
 *
 * A point names the step that has just been made. In a build for those tests `fault_hook(function)` has function(point)
 * called at each, with the GIL held.
 */
#ifndef LUCKY_FAULTS_H
#define LUCKY_FAULTS_H

#include "native.h"

#ifdef LUCKY_FAULT_POINTS

void fault_reached(const char *point);
extern PyMethodDef fault_methods[];
#define LUCKY_FAULT(point) fault_reached(point)

#else

#define LUCKY_FAULT(point) ((void)0)

#endif

/* Copy, with a point where half of it is done. */
static inline void copy_halves(uint8_t *to, const void *from, size_t size, const char *half) {
#ifdef LUCKY_FAULT_POINTS
    memcpy(to, from, size / 2);
    LUCKY_FAULT(half);
    memcpy(to + size / 2, (const uint8_t *)from + size / 2, size - size / 2);
#else
    (void)half;
    memcpy(to, from, size);
#endif
}

#endif
