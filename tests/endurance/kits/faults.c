/* What an engine of a kit does at its fault points, told by the environment variable FAULT: "POINT NTH DEED", or "record".
 * It writes "point NAME" or "fault NANOSECONDS CHILD" to standard output; fault_points.py has the same deeds in Python. */
#define _GNU_SOURCE 1

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_S = 120, EXIT_STATUS = 3 };

static void say(const char *text) {
    ssize_t written = write(STDOUT_FILENO, text, strlen(text));
    (void)written;
}

static void meet(const char *deed) {
    char line[64];
    struct timespec now;
    pid_t child = strcmp(deed, "fork") ? 0 : fork();
    if (!strcmp(deed, "fork") && !child) {
        sleep(CHILD_S); /* it keeps all that it inherited */
        _exit(0);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(line, sizeof line, "fault %lld %d\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec, (int)child);
    say(line);
    if (!strcmp(deed, "exit")) exit(EXIT_STATUS);
    if (!strcmp(deed, "exec")) execl("/bin/sleep", "sleep", "120", (char *)NULL);
    int is_stop = !strcmp(deed, "stop") || !strcmp(deed, "pause");
    pthread_kill(pthread_self(), is_stop ? SIGSTOP : SIGKILL); /* this thread, so that it stops right here */
    if (!is_stop) sleep(CHILD_S);
}

void lucky_fault_reached(const char *point) {
    static char wanted[64], deed[16];
    static int left, is_read, records;
    char line[80];
    const char *fault = is_read ? NULL : getenv("FAULT");
    is_read = 1;
    if (fault && !(records = !strcmp(fault, "record"))) sscanf(fault, "%63s %d %15s", wanted, &left, deed);
    if (records) {
        snprintf(line, sizeof line, "point %s\n", point);
        say(line);
    } else if (left > 0 && !strcmp(point, wanted) && !--left) meet(deed);
}
