/* A small library of envs for tests: points that drift towards a goal, with tensors of every kind the interface has.
 *
 * Its manners are those of real libraries: an option it does not know, or of another type, ends the process with a
 * text; set_buffers may be called once; set_buffers keeps the pointers it is given.
 *
 * Compile with -DSAMPLE_VERSION=2 for one of a wrong version, -DSAMPLE_LOW=1 for a space that is not allowed.
 */
#ifdef SAMPLE_AGAINST_THE_REAL_HEADER
#include "libenv.h"
#else
#include "../../../plugins/lucky_transport_libenv/export/libenv.h"
#endif

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SAMPLE_VERSION
#define SAMPLE_VERSION LIBENV_VERSION
#endif
#ifndef SAMPLE_LOW
#define SAMPLE_LOW 0
#endif

#define PIXELS (3 * 4 * 2)
#define GOALS 10
#define NAME_BYTES 32

struct point {
    uint64_t random;
    float position[2], reward;
    int32_t goal, ticks, episodes;
    uint8_t first, won;
};

struct env {
    int num, acts, is_placed;
    int32_t lines_per_act, seed, episode_steps, crash_at, exit_at, hang_at;
    uint8_t makes_nothing;
    float pace;
    char name[NAME_BYTES];
    struct libenv_buffers places;
    struct point *points;
};

struct wish {
    const char *name;
    enum libenv_dtype dtype;
    void *value;
};

static void fail(const char *what, const char *name) {
    fprintf(stderr, "sample: %s '%s'\n", what, name);
    exit(1);
}

static uint32_t draw(struct point *p) {
    uint64_t z = (p->random += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static float unit(struct point *p) { return (float)(draw(p) >> 8) / (float)(1 << 24); }

static void begin(struct point *p) {
    p->position[0] = unit(p) - 0.5f;
    p->position[1] = unit(p) - 0.5f;
    p->goal = (int32_t)(draw(p) % GOALS);
    p->ticks = 0;
    p->first = 1;
    p->episodes++;
}

static void read_options(struct env *e, const struct libenv_options *options) {
    struct wish known[] = {
        {"seed", LIBENV_DTYPE_INT32, &e->seed},         {"episode_steps", LIBENV_DTYPE_INT32, &e->episode_steps},
        {"crash_at", LIBENV_DTYPE_INT32, &e->crash_at}, {"exit_at", LIBENV_DTYPE_INT32, &e->exit_at},
        {"hang_at", LIBENV_DTYPE_INT32, &e->hang_at},   {"makes_nothing", LIBENV_DTYPE_UINT8, &e->makes_nothing},
        {"pace", LIBENV_DTYPE_FLOAT32, &e->pace},       {"name", LIBENV_DTYPE_UINT8, e->name},
        {"lines_per_act", LIBENV_DTYPE_INT32, &e->lines_per_act},
    };
    for (int i = 0; i < options->count; i++) {
        const struct libenv_option *option = &options->items[i];
        struct wish *found = NULL;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            if (!strcmp(known[j].name, option->name)) found = &known[j];
        if (!found) fail("no option", option->name);
        if (found->dtype != option->dtype) fail("wrong type of option", option->name);
        int is_text = found->value == e->name;
        if (is_text ? option->count >= NAME_BYTES : option->count != 1) fail("wrong size of option", option->name);
        size_t element = option->dtype == LIBENV_DTYPE_UINT8 ? 1 : 4;
        memcpy(found->value, option->data, element * (size_t)option->count);
    }
}

LIBENV_API int libenv_version(void) { return SAMPLE_VERSION; }

LIBENV_API libenv_env *libenv_make(int num, const struct libenv_options options) {
    struct env *e = calloc(1, sizeof *e);
    e->num = num;
    e->episode_steps = 20;
    e->pace = 0.25f;
    read_options(e, &options);
    if (e->makes_nothing) {
        fprintf(stderr, "sample: asked to make nothing\n");
        free(e);
        return NULL;
    }
    e->points = calloc((size_t)num, sizeof *e->points);
    for (int i = 0; i < num; i++) {
        e->points[i].random = (uint64_t)(uint32_t)(e->seed + i) * 0x2545F4914F6CDD1Dull;
        begin(&e->points[i]);
    }
    return e;
}

static void tensor(struct libenv_tensortype *t, const char *name, enum libenv_dtype dtype, int high, int ndim, int a,
                   int b, int c) {
    memset(t, 0, sizeof *t);
    strcpy(t->name, name);
    t->dtype = dtype;
    t->ndim = ndim;
    t->shape[0] = a, t->shape[1] = b, t->shape[2] = c;
    if (dtype == LIBENV_DTYPE_FLOAT32) {
        t->scalar_type = LIBENV_SCALAR_TYPE_REAL;
        t->low.float32 = high ? -(float)high : -INFINITY;
        t->high.float32 = high ? (float)high : INFINITY;
    } else {
        t->scalar_type = LIBENV_SCALAR_TYPE_DISCRETE;
        if (dtype == LIBENV_DTYPE_UINT8) t->high.uint8 = (uint8_t)high;
        else t->low.int32 = SAMPLE_LOW, t->high.int32 = high;
    }
}

LIBENV_API int libenv_get_tensortypes(libenv_env *handle, enum libenv_space_name space,
                                      struct libenv_tensortype *types) {
    (void)handle;
    if (!types) return 3;
    if (space == LIBENV_SPACE_OBSERVATION) {
        tensor(&types[0], "pixels", LIBENV_DTYPE_UINT8, 255, 3, 3, 4, 2);
        tensor(&types[1], "position", LIBENV_DTYPE_FLOAT32, 0, 1, 2, 0, 0);
        tensor(&types[2], "goal", LIBENV_DTYPE_INT32, GOALS - 1, 0, 0, 0, 0);
    } else if (space == LIBENV_SPACE_ACTION) {
        tensor(&types[0], "push", LIBENV_DTYPE_FLOAT32, 1, 1, 2, 0, 0);
        tensor(&types[1], "button", LIBENV_DTYPE_UINT8, 3, 0, 0, 0, 0);
        tensor(&types[2], "aims", LIBENV_DTYPE_INT32, 4, 1, 2, 0, 0);
    } else {
        tensor(&types[0], "ticks", LIBENV_DTYPE_INT32, 1000000, 0, 0, 0, 0);
        tensor(&types[1], "won", LIBENV_DTYPE_UINT8, 1, 0, 0, 0, 0);
        tensor(&types[2], "name", LIBENV_DTYPE_UINT8, 255, 1, NAME_BYTES, 0, 0);
    }
    return 3;
}

LIBENV_API void libenv_set_buffers(libenv_env *handle, struct libenv_buffers *places) {
    struct env *e = handle;
    if (e->is_placed++) fail("set_buffers", "was called again");
    e->places = *places;
}

LIBENV_API void libenv_observe(libenv_env *handle) {
    struct env *e = handle;
    for (int i = 0; i < e->num; i++) {
        const struct point *p = &e->points[i];
        uint8_t *pixels = e->places.ob[i];
        for (int j = 0; j < PIXELS; j++) pixels[j] = (uint8_t)(p->ticks * 7 + j * 3 + p->goal);
        memcpy(e->places.ob[e->num + i], p->position, sizeof p->position);
        *(int32_t *)e->places.ob[2 * e->num + i] = p->goal;
        *(int32_t *)e->places.info[i] = p->ticks;
        *(uint8_t *)e->places.info[e->num + i] = p->won;
        memcpy(e->places.info[2 * e->num + i], e->name, NAME_BYTES);
        e->places.rew[i] = p->reward;
        e->places.first[i] = p->first ? 255 : 0; /* any byte but 0 is true */
    }
}

static void misbehave(struct env *e) {
    e->acts++;
    for (int i = 0; i < e->lines_per_act; i++) puts("sample: what a library says to whoever listens, which is nobody");
    if (e->acts == e->crash_at) {
        fprintf(stderr, "sample: asked to crash at act %d\n", e->acts);
        abort();
    }
    if (e->acts == e->exit_at) {
        fprintf(stderr, "sample: asked to exit at act %d\n", e->acts);
        exit(7);
    }
    if (e->acts == e->hang_at)
        for (;;) sleep(1000);
}

LIBENV_API void libenv_act(libenv_env *handle) {
    struct env *e = handle;
    misbehave(e);
    for (int i = 0; i < e->num; i++) {
        struct point *p = &e->points[i];
        const float *push = e->places.ac[i];
        const uint8_t *button = e->places.ac[e->num + i];
        const int32_t *aims = e->places.ac[2 * e->num + i];
        for (int j = 0; j < 2; j++)
            p->position[j] += e->pace * (push[j] + 0.1f * (float)aims[j] + 0.2f * (unit(p) - 0.5f));
        p->ticks++;
        p->first = 0;
        p->won = *button == 3;
        p->reward = 1.0f - fabsf(p->position[0]);
        if (fabsf(p->position[0]) > 1.0f || p->won || p->ticks >= e->episode_steps) begin(p);
    }
}

LIBENV_API void libenv_close(libenv_env *handle) {
    struct env *e = handle;
    free(e->points);
    free(e);
}

/* Functions of its own, beside the interface. */
LIBENV_API int get_state(libenv_env *handle, int index, char *data, int capacity) {
    struct env *e = handle;
    if (capacity < (int)sizeof *e->points) return -1;
    memcpy(data, &e->points[index], sizeof *e->points);
    return (int)sizeof *e->points;
}

LIBENV_API void set_state(libenv_env *handle, int index, char *data, int size) {
    struct env *e = handle;
    if (size == (int)sizeof *e->points) memcpy(&e->points[index], data, sizeof *e->points);
}
