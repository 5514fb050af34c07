/* The segment: its regions, its header, and how an engine makes it and removes it. */
#ifndef LUCKY_SEGMENT_H
#define LUCKY_SEGMENT_H

#include "lucky_file.h"
#include "lucky_sha256.h"
#include "lucky_spec.h"
#include "lucky_wait.h"

#include <dirent.h>

/* Offsets from the segment's start, as lucky_transport/shm/segment/layout.py computes them. */
typedef struct {
    uint64_t observations, actions, rewards, terminated, truncated, control, signals;
    uint64_t ring_to_client, ring_to_engine, spec, error, total;
} lucky_plan;

/* What the header says of a batch besides the text of its spec. */
typedef struct {
    uint32_t num_envs, obs_size, act_size, obs_dtype, act_dtype, num_terms, ring_bytes, cannot_hold;
} lucky_sizes;

typedef struct {
    lucky_mapping mapping;
    lucky_plan plan;
    lucky_sizes sizes;
    lucky_lock lock;
} lucky_segment;

static inline uint64_t lucky_place(uint64_t *total, uint64_t size) {
    uint64_t offset = *total;
    *total = (offset + size + LUCKY_REGION_ALIGNMENT - 1) / LUCKY_REGION_ALIGNMENT * LUCKY_REGION_ALIGNMENT;
    return offset;
}

static inline lucky_plan lucky_plan_of(const lucky_sizes *s, uint64_t spec_bytes) {
    lucky_plan p;
    uint64_t n = s->num_envs, ring = LUCKY_RING_HEAD_BYTES + (uint64_t)s->ring_bytes;
    p.total = LUCKY_HEADER_BYTES;
    p.observations = lucky_place(&p.total, n * s->obs_size * lucky_dtype_bytes(s->obs_dtype));
    p.actions = lucky_place(&p.total, n * s->act_size * lucky_dtype_bytes(s->act_dtype));
    p.rewards = lucky_place(&p.total, n * 4);
    p.terminated = lucky_place(&p.total, n);
    p.truncated = lucky_place(&p.total, n);
    p.control = lucky_place(&p.total, n);
    p.signals = lucky_place(&p.total, n * s->num_terms * 4);
    p.ring_to_client = lucky_place(&p.total, ring);
    p.ring_to_engine = lucky_place(&p.total, ring);
    p.spec = lucky_place(&p.total, spec_bytes);
    p.error = lucky_place(&p.total, LUCKY_ERROR_BYTES);
    return p;
}

static inline uint32_t *lucky_word(const lucky_segment *s, uint32_t offset) {
    return (uint32_t *)(void *)(s->mapping.start + offset);
}

static inline uint64_t *lucky_wide(const lucky_segment *s, uint32_t offset) {
    return (uint64_t *)(void *)(s->mapping.start + offset);
}

/* Fill the header and the spec of memory that is all 0; the version word is not written. */
static inline void lucky_header_write(uint8_t *start, const lucky_plan *p, const lucky_sizes *s, const char *spec, uint32_t pid,
                                      uint64_t started) {
    const struct { uint32_t offset, value; } words[] = {
        {LUCKY_OFFSET_MAGIC, LUCKY_MAGIC}, {LUCKY_OFFSET_SERVER_PID, pid}, {LUCKY_OFFSET_NUM_ENVS, s->num_envs},
        {LUCKY_OFFSET_OBS_SIZE, s->obs_size}, {LUCKY_OFFSET_ACT_SIZE, s->act_size},
        {LUCKY_OFFSET_CMD_RING_SIZE, s->ring_bytes}, {LUCKY_OFFSET_EXT_SIZE, LUCKY_EXTENSION_BYTES},
        {LUCKY_OFFSET_ENGINE_FEATURES, LUCKY_FEATURE_WAKE | LUCKY_FEATURE_STATUS | LUCKY_FEATURE_SIGNALS |
                                           LUCKY_FEATURE_TRUNCATED | LUCKY_FEATURE_SPEC |
                                           (s->cannot_hold ? 0 : LUCKY_FEATURE_HOLD)},
        {LUCKY_OFFSET_ENGINE_STATE, LUCKY_STATE_READY}, {LUCKY_OFFSET_NUM_TERMS, s->num_terms},
        {LUCKY_OFFSET_OBS_DTYPE, s->obs_dtype}, {LUCKY_OFFSET_ACT_DTYPE, s->act_dtype}, {LUCKY_OFFSET_OBS_SLOTS, 1},
        {LUCKY_OFFSET_SPEC_SIZE, (uint32_t)strlen(spec)}, {LUCKY_OFFSET_ERROR_SIZE, LUCKY_ERROR_BYTES},
    };
    const struct { uint32_t offset; uint64_t value; } wides[] = {
        {LUCKY_OFFSET_OBS_OFFSET, p->observations}, {LUCKY_OFFSET_ACT_OFFSET, p->actions},
        {LUCKY_OFFSET_REWARDS_OFFSET, p->rewards}, {LUCKY_OFFSET_DONES_OFFSET, p->terminated},
        {LUCKY_OFFSET_RESETS_OFFSET, p->control}, {LUCKY_OFFSET_CMD_S2C_OFFSET, p->ring_to_client},
        {LUCKY_OFFSET_CMD_C2S_OFFSET, p->ring_to_engine}, {LUCKY_OFFSET_SERVER_START, started},
        {LUCKY_OFFSET_TOTAL_SIZE, p->total}, {LUCKY_OFFSET_TRUNCATED_OFFSET, p->truncated},
        {LUCKY_OFFSET_SIGNALS_OFFSET, p->signals}, {LUCKY_OFFSET_SPEC_OFFSET, p->spec},
        {LUCKY_OFFSET_ERROR_OFFSET, p->error},
        {LUCKY_OFFSET_SCHEMA_HASH, lucky_sha256_u64((const uint8_t *)spec, strlen(spec))},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) memcpy(start + words[i].offset, &words[i].value, 4);
    LUCKY_FAULT("header.half");
    for (size_t i = 0; i < sizeof wides / sizeof *wides; i++) memcpy(start + wides[i].offset, &wides[i].value, 8);
    memcpy(start + p->spec, spec, strlen(spec));
}

/* Field 22 of /proc/<pid>/stat, clock ticks since boot; 0 when there is no such process, or only its remains. */
static inline uint64_t lucky_start_time(uint32_t pid) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X') return 0;
    field += 2;
    for (int i = 3; i < 22 && field; i++) field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

/* ".images.3" and ".looks.3": files beside the segment. */
static inline int lucky_is_slot_file(const char *suffix) {
    size_t skip = !strncmp(suffix, ".images.", 8) ? 8 : !strncmp(suffix, ".looks.", 7) ? 7 : 0;
    size_t digits = strspn(suffix + skip, "0123456789");
    return skip && digits >= 1 && digits <= 10 && !suffix[skip + digits];
}

static inline void lucky_remove_slot_files(const char *path) {
    const char *name = strrchr(path, '/') + 1;
    size_t length = strlen(name);
    DIR *directory = opendir(LUCKY_DIRECTORY);
    if (!directory) return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char found[LUCKY_PATH_BYTES * 2];
        if (strncmp(entry->d_name, name, length) || !lucky_is_slot_file(entry->d_name + length)) continue;
        snprintf(found, sizeof found, LUCKY_DIRECTORY "/%s", entry->d_name);
        lucky_file_remove(found);
    }
    closedir(directory);
}

static inline int lucky_check_name(const char *name, lucky_error *error) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t length = strlen(name);
    int fits = length >= 1 && length <= 200 && strspn(name, allowed) == length && name[0] != '.';
    for (const char *dot = name; fits && (dot = strchr(dot, '.')); dot++)
        if (lucky_is_slot_file(dot) || !strcmp(dot, ".lock")) fits = 0;
    if (fits) return 0;
    return lucky_fail(error, LUCKY_ERROR_ConfigError,
                      "shared-memory name '%.200s'; use letters, digits, '_', '-' and '.', e.g. lucky_demo", name);
}

/* Remove what a dead engine left; while we hold its place. */
static inline int lucky_remove_dead(const char *path, lucky_error *error) {
    uint32_t magic = 0;
    int fd = lucky_file_open(path, error);
    if (fd < 0) return error->code ? -1 : 0;
    ssize_t count = pread(fd, &magic, 4, 0);
    close(fd);
    if (count > 0 && magic && magic != LUCKY_MAGIC)
        return lucky_fail(error, LUCKY_ERROR_SegmentError, "%s exists and is no segment; use another name", path);
    lucky_remove_slot_files(path);
    LUCKY_FAULT("remove_dead.beside");
    lucky_file_remove(path);
    LUCKY_FAULT("remove_dead.segment");
    return 0;
}

/* Make the segment; a dead engine's of that name is replaced. Clients see it once the version word is written. -1 with
 * Busy, SegmentError, NoSpace, ConfigError or SpecError. */
static inline int lucky_segment_make(lucky_segment *s, const char *name, const lucky_spec *spec, uint32_t ring_bytes,
                                     lucky_error *error) {
    char path[LUCKY_PATH_BYTES], lock_path[LUCKY_PATH_BYTES];
    struct stat namespace_of;
    if (lucky_check_name(name, error)) return -1;
    if (ring_bytes < 4096 || ring_bytes & (ring_bytes - 1) || ring_bytes > 1u << 30)
        return lucky_fail(error, LUCKY_ERROR_SpecError, "ring of %u bytes: expected a power of two from 4096 to 2^30", ring_bytes);
    char *json = lucky_spec_json(spec, error);
    if (!json) return -1;
    snprintf(path, sizeof path, LUCKY_DIRECTORY "/%s", name);
    snprintf(lock_path, sizeof lock_path, LUCKY_DIRECTORY "/%s.lock", name);
    lucky_sizes sizes = {spec->num_envs, (uint32_t)lucky_array_size(&spec->observation),
                         (uint32_t)lucky_array_size(&spec->action), spec->observation.dtype, spec->action.dtype,
                         lucky_count_names(spec->reward_terms) + lucky_count_names(spec->termination_terms), ring_bytes,
                         (uint32_t)spec->cannot_hold};
    s->sizes = sizes;
    s->plan = lucky_plan_of(&sizes, strlen(json));
    if (lucky_lock_take(&s->lock, lock_path, error)) {
        free(json);
        return -1;
    }
    int made = lucky_remove_dead(path, error) ? -1 : lucky_map_new(&s->mapping, path, s->plan.total, error);
    if (!made) lucky_fail(error, LUCKY_ERROR_SegmentError, "%s was made by another process just now", path);
    if (made > 0) {
        lucky_header_write(s->mapping.start, &s->plan, &sizes, json, (uint32_t)getpid(), lucky_start_time((uint32_t)getpid()));
        *lucky_word(s, LUCKY_OFFSET_ENGINE_FEATURES) |= LUCKY_FEATURE_PARKS;
        *lucky_wide(s, LUCKY_OFFSET_SERVER_LOCK) = s->lock.own;
        *lucky_wide(s, LUCKY_OFFSET_SERVER_PID_NAMESPACE) = stat("/proc/self/ns/pid", &namespace_of) ? 0 : namespace_of.st_ino;
    } else lucky_lock_release(&s->lock);
    free(json);
    return made > 0 ? 0 : -1;
}

/* Clients may attach. */
static inline void lucky_segment_publish(lucky_segment *s) {
    LUCKY_FAULT("header.written");
    lucky_store32(lucky_word(s, LUCKY_OFFSET_VERSION), LUCKY_VERSION);
    LUCKY_FAULT("header.ready");
}

/* Why the last exchange has no frame; the text is cut to the error region. */
static inline void lucky_segment_error(lucky_segment *s, const lucky_error *error) {
    uint32_t length = (uint32_t)strlen(error->text), code = error->code;
    uint8_t *at = s->mapping.start + s->plan.error;
    if (length > LUCKY_ERROR_BYTES - 8) length = LUCKY_ERROR_BYTES - 8;
    memcpy(at, &code, 4);
    memcpy(at + 4, &length, 4);
    memcpy(at + 8, error->text, length);
}

/* Remove the segment, what lies beside it and the lock file. */
static inline void lucky_segment_remove(lucky_segment *s) {
    lucky_remove_slot_files(s->mapping.path);
    LUCKY_FAULT("segment.beside");
    lucky_file_remove(s->mapping.path);
    LUCKY_FAULT("segment.removed");
    lucky_lock_release(&s->lock);
    lucky_unmap(&s->mapping);
}

#endif
