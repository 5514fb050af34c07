/* What an exported library says when it cannot go on. Part of exported.c.
 *
 * The interface has no place for an error. libenv_make says it on stderr and returns NULL, as a host can check;
 * every other function says it on stderr and ends the process, which is what libenv's hosts are used to:
 * silence would train on frames that are none.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
    char text[6000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fprintf(stderr, "libenv library of engine %s: %s\n", LUCKY_ENGINE, text);
    fflush(stderr);
}

#define END(...)        \
    do {                \
        say(__VA_ARGS__); \
        _exit(1);       \
    } while (0)
