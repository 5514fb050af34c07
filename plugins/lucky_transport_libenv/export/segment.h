/* The client's end of a segment in C: attach, publish actions, wait for the frame. Part of exported.c.
 *
 * Offsets come from lucky_shm.h, sizes from the segment's header, and both are compared with what is mapped.
 * Publishing is: data, release-store of the counter, full fence, look at the park word, wake. Waiting is: look for
 * a while, park = 1, full fence, look again, futex in slices; between slices the engine's life is looked at.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PAUSE_NS 10000
#define YIELD_NS 150000
#define SLICE_NS 50000000
#define STEP_TIMEOUT_NS 60000000000ll
#define LOCK_CLIENT 1 /* the client's byte of the lock file */

enum { CONTROL_STEP = 0, CONTROL_RESET = 1, CONTROL_HOLD = 2 };

struct segment {
    uint8_t *base;
    size_t size, observation_bytes, action_bytes; /* of a row */
    uint8_t *observations, *actions, *control, *terminated, *truncated;
    float *rewards;
    uint32_t num;
    uint64_t seq;
    int lock;
    char path[256];
};

static uint32_t word(const struct segment *s, size_t offset) {
    return __atomic_load_n((uint32_t *)(s->base + offset), __ATOMIC_ACQUIRE);
}

static uint64_t wide(const struct segment *s, size_t offset) {
    return __atomic_load_n((uint64_t *)(s->base + offset), __ATOMIC_ACQUIRE);
}

/* The region that the header field at `field` points to; NULL when `size` bytes of it are not mapped. */
static void *region(const struct segment *s, size_t field, uint64_t size) {
    uint64_t offset = wide(s, field);
    return offset >= LUCKY_HEADER_BYTES && size <= s->size && offset <= s->size - size ? s->base + offset : NULL;
}

static void wake(const struct segment *s, size_t park) {
    uint32_t *where = (uint32_t *)(s->base + park);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(where, __ATOMIC_RELAXED) && __atomic_exchange_n(where, 0, __ATOMIC_ACQ_REL))
        syscall(SYS_futex, where, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* A descriptor of a regular file of this user with mode 0600, -1 for anything else: every user may make files in
 * /dev/shm. O_NONBLOCK: a FIFO would wait for its other end. */
static int open_private(const char *path, struct stat *status) {
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return -1;
    if (!fstat(file, status) && S_ISREG(status->st_mode) && status->st_uid == geteuid() &&
        (status->st_mode & 07777) == 0600)
        return file;
    close(file);
    return -1;
}

static int map(struct segment *s, const char *name) {
    struct stat status;
    snprintf(s->path, sizeof s->path, "/dev/shm/%s", name);
    int file = open_private(s->path, &status);
    if (file < 0) return 0;
    if (status.st_size >= LUCKY_HEADER_BYTES) {
        void *base = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        s->base = base == MAP_FAILED ? NULL : base;
        s->size = (size_t)status.st_size;
    }
    close(file);
    return s->base && word(s, LUCKY_OFFSET_MAGIC) == LUCKY_MAGIC && word(s, LUCKY_OFFSET_VERSION) == LUCKY_VERSION;
}

static int find_regions(struct segment *s, uint32_t num) {
    uint32_t features = LUCKY_FEATURE_STATUS | LUCKY_FEATURE_TRUNCATED;
    s->num = num;
    s->observation_bytes = word(s, LUCKY_OFFSET_OBS_SIZE) * source_bytes((int)word(s, LUCKY_OFFSET_OBS_DTYPE));
    s->action_bytes = word(s, LUCKY_OFFSET_ACT_SIZE) * source_bytes((int)word(s, LUCKY_OFFSET_ACT_DTYPE));
    s->observations = region(s, LUCKY_OFFSET_OBS_OFFSET, (uint64_t)num * s->observation_bytes);
    s->actions = region(s, LUCKY_OFFSET_ACT_OFFSET, (uint64_t)num * s->action_bytes);
    s->rewards = region(s, LUCKY_OFFSET_REWARDS_OFFSET, (uint64_t)num * 4);
    s->terminated = region(s, LUCKY_OFFSET_DONES_OFFSET, num);
    s->truncated = region(s, LUCKY_OFFSET_TRUNCATED_OFFSET, num);
    s->control = region(s, LUCKY_OFFSET_RESETS_OFFSET, num);
    return word(s, LUCKY_OFFSET_NUM_ENVS) == num && (word(s, LUCKY_OFFSET_ENGINE_FEATURES) & features) == features &&
           s->observation_bytes && s->action_bytes && s->observations && s->actions && s->rewards && s->terminated &&
           s->truncated && s->control;
}

/* When this process started, in clock ticks since boot: field 22 of /proc/self/stat. */
static uint64_t start_time(void) {
    char text[1024], *field;
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = 0;
    field = strrchr(text, ')'); /* the end of field 2, which may hold anything */
    for (int i = 2; field && i < 22; i++) field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

/* Take the client's place: its byte of the lock file, so that others come as command clients, then the header. */
static int attach(struct segment *s) {
    char path[300];
    struct stat status;
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_CLIENT, .l_len = 1};
    snprintf(path, sizeof path, "%s.lock", s->path);
    s->lock = open_private(path, &status);
    if (s->lock < 0 || fcntl(s->lock, F_SETLK, &mine)) return 0;
    uint32_t features = LUCKY_FEATURE_WAKE | LUCKY_FEATURE_HOLD | LUCKY_FEATURE_STATUS | LUCKY_FEATURE_TRUNCATED |
                        LUCKY_FEATURE_PARKS;
    s->seq = wide(s, LUCKY_OFFSET_ACTION_SEQ);
    /* known by its pid: the engine is its child, in the same pid namespace */
    __atomic_store_n((uint64_t *)(s->base + LUCKY_OFFSET_CLIENT_LOCK), 0, __ATOMIC_RELEASE);
    /* in this order: the engine takes a client that has features and no start time for one that left */
    __atomic_store_n((uint64_t *)(s->base + LUCKY_OFFSET_CLIENT_START), start_time(), __ATOMIC_RELEASE);
    __atomic_store_n((uint32_t *)(s->base + LUCKY_OFFSET_CLIENT_FEATURES), features, __ATOMIC_RELEASE);
    __atomic_store_n((uint32_t *)(s->base + LUCKY_OFFSET_CLIENT_PID), (uint32_t)getpid(), __ATOMIC_RELEASE);
    wake(s, LUCKY_OFFSET_PARK_ENGINE);
    return 1;
}

static void publish(struct segment *s) {
    __atomic_store_n((uint64_t *)(s->base + LUCKY_OFFSET_ACTION_SEQ), ++s->seq, __ATOMIC_RELEASE);
    wake(s, LUCKY_OFFSET_PARK_ENGINE);
}

static int has_frame(const struct segment *s) { return wide(s, LUCKY_OFFSET_FRAME_SEQ) == s->seq; }

/* Look at the counter for a while, as long as waking up would take. */
static int look(const struct segment *s) {
    int64_t start = now_ns(), now = start;
    for (; now < start + YIELD_NS; now = now_ns()) {
        for (int i = 0; i < 16; i++)
            if (has_frame(s)) return 1;
        if (now > start + PAUSE_NS) sched_yield();
    }
    return has_frame(s);
}

static void park(const struct segment *s) {
    uint32_t *here = (uint32_t *)(s->base + LUCKY_OFFSET_PARK_FRAME);
    struct timespec slice = {0, SLICE_NS};
    __atomic_store_n(here, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!has_frame(s)) syscall(SYS_futex, here, FUTEX_WAIT, 1, &slice, NULL, 0);
    __atomic_store_n(here, 0, __ATOMIC_RELAXED);
}

/* Wait for the frame of the last publish; NULL when it is there, else why it never will be. */
static const char *await_frame(const struct segment *s, const struct process *engine) {
    static __thread char text[LUCKY_ERROR_BYTES + 1];
    int64_t until = now_ns() + STEP_TIMEOUT_NS;
    for (int found = look(s); !found; found = has_frame(s)) {
        park(s);
        if (has_frame(s)) break;
        if (!is_alive(engine)) return has_frame(s) ? NULL : "the engine's process ended while a frame was awaited";
        if (now_ns() > until) return "the engine gave no frame within 60 s";
    }
    if (!word(s, LUCKY_OFFSET_FRAME_STATUS)) return NULL;
    const uint8_t *error = region(s, LUCKY_OFFSET_ERROR_OFFSET, LUCKY_ERROR_BYTES);
    uint32_t length = 0;
    if (error) memcpy(&length, error + 4, 4);
    if (length > LUCKY_ERROR_BYTES - 8) length = LUCKY_ERROR_BYTES - 8;
    if (error) memcpy(text, error + 8, length);
    text[length] = 0;
    return text;
}

/* Let go of the segment; with `remove` also of its files, which a killed engine cannot remove. Idempotent. */
static void detach(struct segment *s, int remove) {
    char lock[300];
    if (s->base) {
        __atomic_store_n((uint32_t *)(s->base + LUCKY_OFFSET_CLIENT_PID), 0, __ATOMIC_RELEASE);
        munmap(s->base, s->size);
    }
    if (remove && s->path[0]) {
        snprintf(lock, sizeof lock, "%s.lock", s->path);
        unlink(s->path);
        unlink(lock);
    }
    close_end(&s->lock);
    s->base = NULL;
}
