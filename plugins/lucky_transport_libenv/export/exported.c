/* An engine of lucky_transport as a libenv library: the seven functions of the interface.
 *
 * Each env has an engine process of its own, with `num` envs, which it steps through a shared-memory segment. Compiled by
 * `lucky-transport export-libenv`, with LUCKY_ENGINE, LUCKY_OPTIONS and LUCKY_PYTHON in lucky_export.h.
 *
 * An episode that has ended starts again at once: the envs that ended are reset in a second exchange while the
 * others hold, and what is observed is the new episode's start, with the old one's last reward and first = 1.
 * `act` returns when the actions are published, `observe` waits; observing again shows the same.
 * Nothing is shared between envs, so that each may live in a thread of its own.
 */
#define _GNU_SOURCE
#include "libenv.h"
#include "lucky_export.h"
#include "lucky_segment.h"

#include "failure.h"
#include "tensors.h"
#include "engine_process.h"
#include "segment.h"

struct env {
    pid_t owner; /* a forked child must not step its parent's engine */
    struct process process;
    struct segment segment;
    struct tensor *tensors;
    int count, is_stepping;
    struct libenv_buffers places;
    float *rewards;
    uint8_t *first, *terminated, *truncated;
};

static struct env *of(libenv_env *handle) {
    if (!handle) END("libenv_make gave no env; why was said above");
    struct env *e = handle;
    if (e->owner != getpid()) END("this env belongs to the parent process; make one in each process");
    return e;
}

/* Wait for the frame that was asked for. */
static void await(struct env *e) {
    const char *error = await_frame(&e->segment, &e->process);
    if (!error) return;
    detach(&e->segment, !is_alive(&e->process));
    END("%s", error);
}

/* Take in the frame of the last act, and start the next episode where one ended. */
static void finish(struct env *e) {
    if (!e->is_stepping) return;
    e->is_stepping = 0;
    await(e);
    struct segment *s = &e->segment;
    int ended = 0;
    memcpy(e->rewards, s->rewards, s->num * sizeof(float));
    for (uint32_t i = 0; i < s->num; i++) {
        e->terminated[i] = s->terminated[i] != 0;
        e->truncated[i] = s->truncated[i] != 0;
        ended |= e->first[i] = e->terminated[i] | e->truncated[i];
    }
    if (!ended) return;
    for (uint32_t i = 0; i < s->num; i++) s->control[i] = e->first[i] ? CONTROL_RESET : CONTROL_HOLD;
    publish(s);
    await(e);
}

/* Every tensor has to lie inside the rows that the segment has. */
static int fit(const struct env *e) {
    for (int i = 0; i < e->count; i++) {
        const struct tensor *t = &e->tensors[i];
        size_t row = t->region != REGION_ROW                ? lucky_dtype_bytes((uint32_t)t->source)
                     : t->space == LIBENV_SPACE_ACTION ? e->segment.action_bytes
                                                            : e->segment.observation_bytes;
        size_t bytes = t->count * lucky_dtype_bytes((uint32_t)t->source);
        if (bytes > row || t->offset > row - bytes) return 0;
    }
    return 1;
}

/* Read what the engine has, attach, and start the first episodes. False, with a text said, when that fails. */
static int open_engine(struct env *e, int num, const struct libenv_options *options) {
    if (!start(&e->process)) return say("%s cannot be started: %s", LUCKY_PYTHON, strerror(errno)), 0;
    request(&e->process, (uint32_t)num, options); /* where it fails the process has ended, which is seen next */
    char *text = greeting(&e->process), *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        if (!strncmp(line, "error ", 6)) say("%s", line + 6);
        else if (!strncmp(line, "ready ", 6)) {
            if (!map(&e->segment, line + 6)) say("the engine's segment %s cannot be mapped", line + 6);
        } else if (e->count == MOST_TENSORS) say("the engine has more than %d tensors", MOST_TENSORS);
        else if (read_tensor(line, &e->tensors[e->count])) {
            e->count++;
            continue;
        } else say("the engine's line '%s' cannot be read: export the library again with the version that runs it", line);
        break;
    }
    free(text);
    if (!e->segment.shared.mapping.start) return 0;
    if (!find_regions(&e->segment, (uint32_t)num) || !fit(e)) return say("the engine's segment does not fit"), 0;
    if (!attach(&e->segment)) return say("the engine's segment is taken: %s", strerror(errno)), 0;
    memset(e->segment.control, CONTROL_RESET, (size_t)num);
    publish(&e->segment);
    const char *error = await_frame(&e->segment, &e->process);
    if (error) return say("%s", error), 0;
    memset(e->first, 1, (size_t)num);
    return 1;
}

LIBENV_API int libenv_version(void) { return LIBENV_VERSION; }

LIBENV_API void libenv_close(libenv_env *handle) {
    struct env *e = handle;
    if (!e) return;
    if (e->owner == getpid()) {
        int in_order = stop(&e->process);
        detach(&e->segment, !in_order);
    }
    free(e->tensors);
    free(e->rewards);
    free(e->first);
    free(e->terminated);
    free(e->truncated);
    free(e);
}

LIBENV_API libenv_env *libenv_make(int num, const struct libenv_options options) {
    struct env *e = num > 0 ? calloc(1, sizeof *e) : NULL;
    if (!e) return say("libenv_make(%d): expected at least 1 env, and memory for it", num), NULL;
    e->owner = getpid();
    e->segment.shared.lock.fd = e->process.to = e->process.from = -1;
    e->tensors = calloc(MOST_TENSORS, sizeof *e->tensors);
    e->rewards = calloc((size_t)num, sizeof *e->rewards);
    e->first = calloc((size_t)num, 1);
    e->terminated = calloc((size_t)num, 1);
    e->truncated = calloc((size_t)num, 1);
    if (e->tensors && e->rewards && e->first && e->terminated && e->truncated && open_engine(e, num, &options)) return e;
    libenv_close(e);
    return NULL;
}

LIBENV_API int libenv_get_tensortypes(libenv_env *handle, enum libenv_space_name space,
                                      struct libenv_tensortype *types) {
    const struct env *e = of(handle);
    int count = 0;
    for (int i = 0; i < e->count; i++)
        if (e->tensors[i].space == (int)space) {
            if (types) types[count] = e->tensors[i].type;
            count++;
        }
    return count;
}

LIBENV_API void libenv_set_buffers(libenv_env *handle, struct libenv_buffers *places) { of(handle)->places = *places; }

LIBENV_API void libenv_observe(libenv_env *handle) {
    struct env *e = of(handle);
    const struct segment *s = &e->segment;
    finish(e);
    void **tables[] = {[LIBENV_SPACE_OBSERVATION] = e->places.ob, [LIBENV_SPACE_INFO] = e->places.info};
    for (int i = 0; i < e->count; i++) {
        const struct tensor *t = &e->tensors[i];
        if (t->space == LIBENV_SPACE_ACTION) continue;
        const uint8_t *rows = t->region == REGION_TERMINATED  ? e->terminated
                              : t->region == REGION_TRUNCATED ? e->truncated
                                                              : s->observations + t->offset;
        size_t stride = t->region == REGION_ROW ? s->observation_bytes : 1;
        for (uint32_t env = 0; env < s->num; env++) give(t, rows + env * stride, *tables[t->space]++);
    }
    memcpy(e->places.rew, e->rewards, s->num * sizeof(float));
    memcpy(e->places.first, e->first, s->num);
}

LIBENV_API void libenv_act(libenv_env *handle) {
    struct env *e = of(handle);
    struct segment *s = &e->segment;
    finish(e);
    void **in = e->places.ac;
    for (int i = 0; i < e->count; i++) {
        const struct tensor *t = &e->tensors[i];
        if (t->space != LIBENV_SPACE_ACTION) continue;
        for (uint32_t env = 0; env < s->num; env++) {
            struct refusal no;
            if (take(t, *in++, s->actions + env * s->action_bytes + t->offset, &no)) continue;
            if (!no.why[0]) END("action '%s' of env %u is not finite at element %zu; no env was stepped", t->type.name, env, no.at);
            END("action '%s' of env %u is %s at element %zu, more than the engine's type holds; no env was stepped",
                t->type.name, env, no.why, no.at);
        }
    }
    memset(s->control, CONTROL_STEP, s->num);
    publish(s);
    e->is_stepping = 1;
}
