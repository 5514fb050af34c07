/* The client's end of a segment: attach, publish actions, wait for the frame. Part of exported.c.
 *
 * Files, words and waits are those of the C kit (schema/kits/c). Offsets come from lucky_shm.h, sizes from the segment's
 * header, and both are compared with what is mapped.
 */
#define SLICE_NS 50000000 /* between slices the engine's life is looked at */
#define STEP_TIMEOUT_NS 60000000000ll
#define LOCK_CLIENT 1 /* the client's byte of the lock file */

enum { CONTROL_STEP = 0, CONTROL_RESET = 1, CONTROL_HOLD = 2 };

struct segment {
    lucky_segment shared; /* its mapping and its lock */
    lucky_waiter waiter;
    size_t observation_bytes, action_bytes; /* of a row */
    uint8_t *observations, *actions, *control, *terminated, *truncated;
    float *rewards;
    uint32_t num;
    uint64_t seq;
};

static uint32_t word(const struct segment *s, uint32_t offset) { return lucky_load32(lucky_word(&s->shared, offset)); }

static uint64_t wide(const struct segment *s, uint32_t offset) { return lucky_load64(lucky_wide(&s->shared, offset)); }

/* The region that the header field at `field` points to; NULL when `size` bytes of it are not mapped. */
static void *region(const struct segment *s, uint32_t field, uint64_t size) {
    const lucky_mapping *m = &s->shared.mapping;
    uint64_t offset = wide(s, field);
    return offset >= LUCKY_HEADER_BYTES && size <= m->size && offset <= m->size - size ? m->start + offset : NULL;
}

static int map(struct segment *s, const char *name) {
    lucky_mapping *m = &s->shared.mapping;
    lucky_error error;
    struct stat status;
    snprintf(m->path, sizeof m->path, LUCKY_DIRECTORY "/%.200s", name);
    snprintf(s->shared.lock.path, sizeof s->shared.lock.path, LUCKY_DIRECTORY "/%.200s.lock", name);
    m->fd = lucky_file_open(m->path, &error);
    if (m->fd < 0) return 0;
    if (!fstat(m->fd, &status) && status.st_size >= LUCKY_HEADER_BYTES) {
        void *start = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
        m->start = start == MAP_FAILED ? NULL : start;
        m->size = (uint64_t)status.st_size;
    }
    if (!m->start) close_end(&m->fd);
    return m->start && word(s, LUCKY_OFFSET_MAGIC) == LUCKY_MAGIC && word(s, LUCKY_OFFSET_VERSION) == LUCKY_VERSION;
}

static int find_regions(struct segment *s, uint32_t num) {
    uint32_t features = LUCKY_FEATURE_STATUS | LUCKY_FEATURE_TRUNCATED;
    s->num = num;
    s->observation_bytes = (size_t)word(s, LUCKY_OFFSET_OBS_SIZE) * lucky_dtype_bytes(word(s, LUCKY_OFFSET_OBS_DTYPE));
    s->action_bytes = (size_t)word(s, LUCKY_OFFSET_ACT_SIZE) * lucky_dtype_bytes(word(s, LUCKY_OFFSET_ACT_DTYPE));
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

/* Take the client's place: its byte of the lock file, so that others come as command clients, then the header. */
static int attach(struct segment *s) {
    lucky_segment *shared = &s->shared;
    lucky_error error;
    struct flock mine;
    shared->lock.fd = lucky_file_open(shared->lock.path, &error);
    if (shared->lock.fd < 0 || lucky_lock_byte(shared->lock.fd, F_SETLK, LOCK_CLIENT, &mine)) return 0;
    uint32_t pid = (uint32_t)getpid(), features = LUCKY_FEATURE_WAKE | LUCKY_FEATURE_HOLD | LUCKY_FEATURE_STATUS |
                                                  LUCKY_FEATURE_TRUNCATED | LUCKY_FEATURE_PARKS;
    s->waiter = (lucky_waiter){.park = lucky_word(shared, LUCKY_OFFSET_PARK_FRAME), .peer_wakes = 1};
    s->seq = wide(s, LUCKY_OFFSET_ACTION_SEQ);
    /* known by its pid: the engine is its child, in the same pid namespace */
    lucky_store64(lucky_wide(shared, LUCKY_OFFSET_CLIENT_LOCK), 0);
    /* in this order: the engine takes a client that has features and no start time for one that left */
    lucky_store64(lucky_wide(shared, LUCKY_OFFSET_CLIENT_START), lucky_start_time(pid));
    lucky_store32(lucky_word(shared, LUCKY_OFFSET_CLIENT_FEATURES), features);
    lucky_store32(lucky_word(shared, LUCKY_OFFSET_CLIENT_PID), pid);
    lucky_wake(lucky_word(shared, LUCKY_OFFSET_PARK_ENGINE));
    return 1;
}

static void publish(struct segment *s) {
    lucky_tell_cpu(lucky_word(&s->shared, LUCKY_OFFSET_PARK_ENGINE), lucky_own_cpu());
    lucky_store64(lucky_wide(&s->shared, LUCKY_OFFSET_ACTION_SEQ), ++s->seq);
    lucky_wake(lucky_word(&s->shared, LUCKY_OFFSET_PARK_ENGINE));
}

/* Wait for the frame of the last publish; NULL when it is there, else why it never will be. */
static const char *await_frame(struct segment *s, const struct process *engine) {
    static __thread char text[LUCKY_ERROR_BYTES + 1];
    const lucky_watch frame = {lucky_wide(&s->shared, LUCKY_OFFSET_FRAME_SEQ), s->seq - 1, NULL, 0, NULL};
    int64_t until = lucky_now_ns() + STEP_TIMEOUT_NS;
    while (!lucky_wait(&frame, &s->waiter, SLICE_NS)) {
        if (!is_alive(engine)) {
            if (lucky_changed(&frame)) break;
            return "the engine's process ended while a frame was awaited";
        }
        if (lucky_now_ns() > until) return "the engine gave no frame within 60 s";
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
    lucky_mapping *m = &s->shared.mapping;
    if (m->start) lucky_store32(lucky_word(&s->shared, LUCKY_OFFSET_CLIENT_PID), 0);
    lucky_unmap(m);
    if (remove && m->path[0]) {
        lucky_file_remove(m->path);
        lucky_file_remove(s->shared.lock.path);
    }
    close_end(&s->shared.lock.fd);
}
