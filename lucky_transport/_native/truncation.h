/* Survives a mapped file that a peer truncates: a guarded mapping reads zeros from then on and is marked as lost. */
#ifndef LUCKY_TRUNCATION_H
#define LUCKY_TRUNCATION_H

#include "native.h"

/* How often a mapping was lost: tells waits to let their caller look. */
extern uint32_t mappings_lost;

/* 1 when the mapping in which an address lies was lost. */
int is_in_lost_mapping(const void *address);

/* The same, at the cost of one load as long as none was lost. */
static inline int is_lost(const void *address) {
    return __atomic_load_n(&mappings_lost, __ATOMIC_ACQUIRE) && is_in_lost_mapping(address);
}

#endif
