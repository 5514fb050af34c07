/* The engine's process: started, asked what it has, ended. Part of exported.c.
 *
 * It has a session of its own, so that the terminal's Ctrl-C is the host's alone, and it ends with the host,
 * however that ends (it is told our pid).
 * Every wait for it is bounded, and its end is seen at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

#define START_MS 60000
#define STOP_MS 5000
#define GREETING_BYTES (1 << 20)

extern char **environ;

struct process {
    pid_t pid;     /* 0: none */
    int to, from;  /* -1: closed */
};

static int is_alive(const struct process *p) {
    siginfo_t info = {0};
    if (!p->pid || waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT)) return 0;
    return info.si_pid == 0;
}

static void close_end(int *end) {
    if (*end >= 0) close(*end);
    *end = -1;
}

/* End it: SIGTERM, and SIGKILL when it takes too long; idempotent. True when it ended in order. */
static int stop(struct process *p) {
    close_end(&p->to);
    close_end(&p->from);
    if (!p->pid) return 1;
    int status = 0;
    kill(p->pid, SIGTERM);
    for (int waited = 0; is_alive(p) && waited < STOP_MS; waited++) usleep(1000);
    if (is_alive(p)) kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
    p->pid = 0;
    return WIFEXITED(status);
}

static int start(struct process *p) {
    int in[2], out[2];
    char parent[32];
    *p = (struct process){0, -1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in)) return 0;
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]);
        close(in[1]);
        return 0;
    }
    struct timeval patience = {START_MS / 1000, 0};
    setsockopt(in[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* a peer that never reads is not waited for */
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char *arguments[] = {LUCKY_PYTHON, "-P", "-m", "lucky_transport_libenv.export.process", LUCKY_ENGINE, LUCKY_OPTIONS, parent, NULL};
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[1], 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, &none);
    int failed = posix_spawn(&p->pid, LUCKY_PYTHON, &files, &how, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    close(in[1]);
    close(out[1]);
    p->to = in[0];
    p->from = out[0];
    if (failed) {
        p->pid = 0;
        stop(p);
        errno = failed;
    }
    return !failed;
}

static int tell(const struct process *p, const void *data, size_t size) {
    while (size) {
        ssize_t sent = send(p->to, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return 0;
        data = (const char *)data + sent;
        size -= (size_t)sent;
    }
    return 1;
}

/* Tell it how many envs and which options; see export/process.py. */
static int request(struct process *p, uint32_t num, const struct libenv_options *options) {
    uint32_t head[2] = {num, (uint32_t)options->count};
    int well = tell(p, head, sizeof head);
    for (int i = 0; well && i < options->count; i++) {
        const struct libenv_option *option = &options->items[i];
        well = option->count >= 0 && tell(p, option->name, sizeof option->name) &&
               tell(p, &option->dtype, sizeof option->dtype) && tell(p, &option->count, sizeof option->count) &&
               tell(p, option->data, (size_t)option->count * libenv_bytes(option->dtype));
    }
    close_end(&p->to);
    return well;
}

/* Read what it says until its last line, `ready` or `error`; NULL with a text said when that does not come. */
static char *greeting(struct process *p) {
    char *text = malloc(GREETING_BYTES);
    size_t length = 0, line = 0;
    int64_t until = lucky_now_ns() + (int64_t)START_MS * 1000000;
    while (text && length < GREETING_BYTES - 1) {
        struct pollfd ready = {p->from, POLLIN, 0};
        int64_t left_ms = (until - lucky_now_ns()) / 1000000;
        int found = poll(&ready, 1, left_ms > 0 ? (int)left_ms : 0);
        if (found < 0 && errno == EINTR) continue;
        if (found == 0) say("the engine was not ready within %d s", START_MS / 1000);
        ssize_t got = found > 0 ? read(p->from, text + length, GREETING_BYTES - 1 - length) : 0;
        if (got <= 0) break;
        length += (size_t)got;
        text[length] = 0;
        for (char *end; (end = strchr(text + line, '\n')); line = (size_t)(end - text) + 1)
            if (!strncmp(text + line, "ready ", 6) || !strncmp(text + line, "error ", 6)) return text;
    }
    say("the engine's process (%s) ended before it was ready; what it said is above", LUCKY_PYTHON);
    free(text);
    return NULL;
}
