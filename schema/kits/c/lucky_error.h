/* Why something failed: a code of the wire (LUCKY_ERROR_<Class> in lucky_schema.h, 0 for none) and a sentence. */
#ifndef LUCKY_ERROR_H
#define LUCKY_ERROR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "lucky_schema.h"

typedef struct {
    uint32_t code;
    char text[508];
} lucky_error;

/* "Busy" for LUCKY_ERROR_Busy; "" for a code that is none. */
static inline const char *lucky_error_name(uint32_t code) {
    return code < sizeof LUCKY_ERRORS / sizeof *LUCKY_ERRORS ? LUCKY_ERRORS[code] : "";
}

/* Fill `error` and return -1. The text reaches Python clients, which expect UTF-8: what is not ASCII becomes '?'. */
#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
static inline int lucky_fail(lucky_error *error, uint32_t code, const char *format, ...) {
    va_list values;
    va_start(values, format);
    error->code = code;
    vsnprintf(error->text, sizeof error->text, format, values);
    va_end(values);
    for (char *c = error->text; *c; c++)
        if ((unsigned char)*c > 126) *c = '?';
    return -1;
}

#endif
