/* What the machine gives two native processes: the floor under every shared-memory row of a benchmark.
 *
 *     ping_pong spin|futex ROUNDS REQUEST_BYTES ANSWER_BYTES
 *
 * writes ROUNDS round trips to standard output, int64 nanoseconds each, and behind them the CPU time of both sides. Both processes look all the time (the limit of
 * spinning), or sleep at once (the limit of blocking). Before each call so many bytes are copied into shared memory, and
 * before each answer, as a step copies actions and observations.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_NS 30000000000ll /* a peer that is stopped for longer ends the run */
#define SLICE_NS 50000000
#define LOOKS 0xfffff /* between two looks at the clock */

typedef struct {
    _Alignas(128) uint64_t call;
    _Alignas(128) uint64_t answer;
    _Alignas(128) uint32_t park_call;
    _Alignas(128) uint32_t park_answer;
    _Alignas(128) int64_t answerer_cpu;
    _Alignas(128) uint8_t data[];
} Shared;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Wait until the word is `wanted`; ends the process when that takes too long. */
static void wait_for(const uint64_t *word, uint64_t wanted, uint32_t *park, int spins) {
    int64_t end = 0;
    for (uint32_t looks = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != wanted; looks++) {
        if (spins) {
            relax();
            if (looks & LOOKS) continue;
        } else {
            __atomic_store_n(park, 1, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            struct timespec slice = {0, SLICE_NS};
            if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != wanted) syscall(SYS_futex, park, FUTEX_WAIT, 1, &slice, NULL, 0);
            __atomic_store_n(park, 0, __ATOMIC_RELAXED);
        }
        int64_t now = now_ns();
        if (!end) end = now + LONGEST_NS;
        if (now > end) _exit(3);
    }
}

/* Publish, and wake a peer that is parked. */
static void publish(uint64_t *word, uint64_t value, uint32_t *park) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(park, __ATOMIC_RELAXED) && __atomic_exchange_n(park, 0, __ATOMIC_ACQ_REL))
        syscall(SYS_futex, park, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int spins = !strcmp(arguments[1], "spin");
    uint64_t rounds = strtoull(arguments[2], NULL, 10);
    size_t request = strtoull(arguments[3], NULL, 10), answer = strtoull(arguments[4], NULL, 10);
    Shared *shared = mmap(NULL, sizeof(Shared) + request + answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t *source = malloc(request + answer + 1);
    int64_t *times = calloc(rounds + 2, sizeof *times);
    if (shared == MAP_FAILED || !source || !times) return 1;
    memset(source, 1, request + answer); /* pages never written are one page of zeros, which stays in the cache */
    pid_t parent = getpid(), child = fork();
    if (child < 0) return 1;
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        for (uint64_t i = 1; i <= rounds; i++) {
            wait_for(&shared->call, i, &shared->park_call, spins);
            memcpy(shared->data + request, source, answer);
            publish(&shared->answer, i, &shared->park_answer);
        }
        shared->answerer_cpu = cpu_ns();
        _exit(0);
    }
    for (uint64_t i = 1; i <= rounds; i++) {
        int64_t start = now_ns();
        memcpy(shared->data, source, request);
        publish(&shared->call, i, &shared->park_call);
        wait_for(&shared->answer, i, &shared->park_answer, spins);
        times[i - 1] = now_ns() - start;
    }
    times[rounds] = cpu_ns();
    waitpid(child, NULL, 0);
    times[rounds + 1] = shared->answerer_cpu;
    return fwrite(times, sizeof *times, rounds + 2, stdout) == rounds + 2 ? 0 : 1;
}
