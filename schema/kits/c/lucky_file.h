/* Files in /dev/shm, where every user may write: made with O_EXCL and mode 0600, used only when they are a regular file of
 * this user with exactly that mode, and held by POSIX record locks. schema/README.md has the rules. */
#ifndef LUCKY_FILE_H
#define LUCKY_FILE_H

#include "lucky_error.h"
#include "lucky_fault.h"
#include "lucky_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define LUCKY_PATH_BYTES 256
#define LUCKY_DIRECTORY "/dev/shm"

/* O_NONBLOCK: opening a FIFO would otherwise wait for its other end. */
#define LUCKY_OPEN_FLAGS (O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

/* ---- private files ----------------------------------------------------------------------------------------------- */

static inline int lucky_is_private(const struct stat *s) {
    return S_ISREG(s->st_mode) && s->st_uid == geteuid() && (s->st_mode & 07777) == 0600;
}

static inline int lucky_refuse_file(const char *path, const struct stat *s, lucky_error *error) {
    return lucky_fail(error, LUCKY_ERROR_SegmentError,
                      "%s is of kind %o and user %u with mode %04o, expected a regular file of user %u with mode 0600; use "
                      "another name, or remove that file",
                      path, s->st_mode & S_IFMT, (unsigned)s->st_uid, s->st_mode & 07777, (unsigned)geteuid());
}

/* A descriptor of a file that is there; -1 with error->code 0 when there is none, else with the reason. */
static inline int lucky_file_open(const char *path, lucky_error *error) {
    struct stat s;
    int fd = open(path, LUCKY_OPEN_FLAGS);
    error->code = 0;
    if (fd < 0) {
        int reason = errno;
        if (reason == ENOENT) return -1;
        if (!lstat(path, &s) && !lucky_is_private(&s)) return lucky_refuse_file(path, &s, error);
        return lucky_fail(error, LUCKY_ERROR_SegmentError, "%s cannot be opened: %s", path, strerror(reason));
    }
    if (!fstat(fd, &s) && lucky_is_private(&s)) return fd;
    close(fd);
    return lucky_refuse_file(path, &s, error);
}

/* A descriptor of a new file of mode 0600, whatever the umask is; -1 with error->code 0 when there is one. */
static inline int lucky_file_make(const char *path, lucky_error *error) {
    int fd = open(path, LUCKY_OPEN_FLAGS | O_CREAT | O_EXCL, 0600);
    error->code = 0;
    if (fd >= 0) {
        if (!fchmod(fd, 0600)) return fd;
        close(fd);
    } else if (errno == EEXIST) return -1;
    return lucky_fail(error, LUCKY_ERROR_SegmentError, "%s cannot be made: %s", path, strerror(errno));
}

/* Remove a file of this user; another user's stays. */
static inline void lucky_file_remove(const char *path) {
    struct stat s;
    if (!lstat(path, &s) && !S_ISDIR(s.st_mode) && s.st_uid == geteuid()) unlink(path);
}

/* ---- mapped files ------------------------------------------------------------------------------------------------ */

typedef struct {
    uint8_t *start;
    uint64_t size;
    int fd;
    char path[LUCKY_PATH_BYTES];
} lucky_mapping;

/* A new file of zeros, every page of it there. Returns 1; 0 when there is a file; -1 with the reason. */
static inline int lucky_map_new(lucky_mapping *m, const char *path, uint64_t size, lucky_error *error) {
    int fd = lucky_file_make(path, error), reason;
    if (fd < 0) return error->code ? -1 : 0;
    LUCKY_FAULT("file.made");
    do reason = posix_fallocate(fd, 0, (off_t)size); /* a full /dev/shm is an error here, never SIGBUS later */
    while (reason == EINTR);
    LUCKY_FAULT("file.allocated");
    void *start = MAP_FAILED;
    if (!reason && (start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) reason = errno;
    if (!reason) {
        m->start = (uint8_t *)start;
        m->size = size;
        m->fd = fd;
        snprintf(m->path, sizeof m->path, "%s", path);
        return 1;
    }
    close(fd);
    lucky_file_remove(path);
    if (reason == ENOSPC || reason == ENOMEM)
        return lucky_fail(error, LUCKY_ERROR_NoSpace,
                          "%s of %llu bytes does not fit into shared memory; use fewer envs, or enlarge it (docker run "
                          "--shm-size=1g; mount -o remount,size=1g /dev/shm)",
                          path, (unsigned long long)size);
    return lucky_fail(error, LUCKY_ERROR_SegmentError, "%s cannot be made: %s", path, strerror(reason));
}

/* -1 when another process has cut the file: what lies beyond its new end is lost. */
static inline int lucky_map_check(const lucky_mapping *m, lucky_error *error) {
    struct stat s;
    if (fstat(m->fd, &s) || (uint64_t)s.st_size >= m->size) return 0;
    return lucky_fail(error, LUCKY_ERROR_SegmentError,
                      "%s was cut to %llu of %llu bytes by another process; start the engine again", m->path,
                      (unsigned long long)s.st_size, (unsigned long long)m->size);
}

static inline void lucky_unmap(lucky_mapping *m) {
    if (!m->start) return;
    munmap(m->start, m->size);
    close(m->fd);
    m->start = NULL;
}

/* ---- the lock file ----------------------------------------------------------------------------------------------- */

/* The engine's place is byte 0; its own byte, at a random offset, tells it from its successor. */
typedef struct {
    int fd;
    uint64_t own;
    char path[LUCKY_PATH_BYTES];
} lucky_lock;

static inline int lucky_lock_byte(int fd, int command, uint64_t byte, struct flock *request) {
    memset(request, 0, sizeof *request);
    request->l_type = F_WRLCK;
    request->l_whence = SEEK_SET;
    request->l_start = (off_t)(byte & INT64_MAX);
    request->l_len = 1;
    return fcntl(fd, command, request);
}

/* 1 while some process holds the byte, this one too. */
static inline int lucky_lock_is_held(const lucky_lock *l, uint64_t byte) {
    struct flock request;
    return lucky_lock_byte(l->fd, F_OFD_GETLK, byte, &request) || request.l_type != F_UNLCK;
}

/* Take the engine's place: 0, or -1 with Busy when a living engine keeps it, SegmentError for somebody else's file. A
 * process that removes what a dead engine left has the place for a moment; that is waited for. */
static inline int lucky_lock_take(lucky_lock *l, const char *path, lucky_error *error) {
    int64_t until = lucky_now_ns() + LUCKY_TAKE_OVER_NS;
    int vanished = 0;
    snprintf(l->path, sizeof l->path, "%s", path);
    while (vanished < 8) { /* its last owner may unlink it between our open and our lock */
        struct stat opened, named;
        struct flock request;
        l->fd = lucky_file_make(path, error);
        if (l->fd < 0 && !error->code) l->fd = lucky_file_open(path, error);
        if (l->fd < 0) {
            if (error->code) return -1;
            vanished++;
            continue;
        }
        LUCKY_FAULT("lock.opened");
        /* An engine of this very process: POSIX locks do not conflict with our own, but F_OFD_GETLK shows them. Closing
         * the descriptor would drop that engine's locks, so it stays open. */
        int held = lucky_lock_is_held(l, 0);
        int ours = held && !lucky_lock_byte(l->fd, F_GETLK, 0, &request) && request.l_type == F_UNLCK;
        if (held || lucky_lock_byte(l->fd, F_SETLK, 0, &request)) {
            if (!ours) close(l->fd);
            if (!ours && lucky_now_ns() < until) {
                struct timespec pause = {0, LUCKY_POLL_NS};
                nanosleep(&pause, NULL);
                continue;
            }
            return lucky_fail(error, LUCKY_ERROR_Busy, "segment %.*s belongs to a living engine; use another name",
                              (int)(strlen(path) - strlen(".lock")), path);
        }
        if (fstat(l->fd, &opened) || lstat(path, &named) || opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
            close(l->fd);
            vanished++;
            continue;
        }
        LUCKY_FAULT("lock.taken");
        do {
            l->own = 0;
            if (getrandom(&l->own, 7, 0) != 7) l->own = (uint64_t)getpid();
            l->own += 65536;
        } while (lucky_lock_byte(l->fd, F_SETLK, l->own, &request));
        return 0;
    }
    return lucky_fail(error, LUCKY_ERROR_NotReachable, "lock file %s keeps vanishing; is another engine starting there?", path);
}

/* Remove the file and let go. */
static inline void lucky_lock_release(lucky_lock *l) {
    lucky_file_remove(l->path);
    LUCKY_FAULT("lock.removed");
    close(l->fd);
    l->fd = -1;
}

#endif
