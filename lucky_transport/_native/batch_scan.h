/* One pass over a batch: are its actions finite and how many lie outside the bounds; is any flag set. */
#ifndef LUCKY_BATCH_SCAN_H
#define LUCKY_BATCH_SCAN_H

#include "native.h"

typedef struct {
    char kind;              /* 'f' float32, 'd' float64, 'q' int64, 0 other: no scan */
    int bounded;            /* scalar bounds given */
    double low, high;       /* exact: of the actions' own type */
    int64_t low_q, high_q;  /* the same of int64, which a double does not hold */
} ActionKind;

/* 0 when a value is NaN or infinite; else 1, and `outside` counts on. */
int scan_actions(const void *data, size_t bytes, const ActionKind *k, uint64_t *outside);

/* 1 when one of the bytes is not 0. */
int any_nonzero(const uint8_t *p, size_t n);

#endif
