/* The C library that `bench --suite systems` steps: points that are pushed, with an episode of fixed length.
 *
 * It does next to nothing, so that a step shows what calling it costs. The first float of an observation is the number
 * of acts until then, by which its host counts them.
 */
#include "libenv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEEN 16
#define PUSHES 4
#define EPISODE 1000

struct points {
    int num, acts;
    struct libenv_buffers places;
    float *state;
};

LIBENV_API int libenv_version(void) { return LIBENV_VERSION; }

LIBENV_API libenv_env *libenv_make(int num, const struct libenv_options options) {
    (void)options;
    struct points *e = calloc(1, sizeof *e);
    e->num = num;
    e->state = calloc((size_t)num * SEEN, sizeof *e->state);
    return e;
}

LIBENV_API int libenv_get_tensortypes(libenv_env *handle, enum libenv_space_name space,
                                      struct libenv_tensortype *type) {
    (void)handle;
    if (space == LIBENV_SPACE_INFO) return 0;
    if (type) {
        memset(type, 0, sizeof *type);
        strcpy(type->name, space == LIBENV_SPACE_ACTION ? "push" : "state");
        type->scalar_type = LIBENV_SCALAR_TYPE_REAL;
        type->dtype = LIBENV_DTYPE_FLOAT32;
        type->ndim = 1;
        type->shape[0] = space == LIBENV_SPACE_ACTION ? PUSHES : SEEN;
        type->low.float32 = -INFINITY;
        type->high.float32 = INFINITY;
    }
    return 1;
}

LIBENV_API void libenv_set_buffers(libenv_env *handle, struct libenv_buffers *places) {
    ((struct points *)handle)->places = *places;
}

LIBENV_API void libenv_act(libenv_env *handle) {
    struct points *e = handle;
    e->acts++;
    for (int i = 0; i < e->num; i++) {
        float *state = e->state + i * SEEN;
        const float *push = e->places.ac[i];
        state[0] = (float)e->acts;
        for (int j = 0; j < PUSHES; j++) state[1 + j] = 0.9f * state[1 + j] + push[j];
    }
}

LIBENV_API void libenv_observe(libenv_env *handle) {
    struct points *e = handle;
    for (int i = 0; i < e->num; i++) {
        memcpy(e->places.ob[i], e->state + i * SEEN, SEEN * sizeof(float));
        e->places.rew[i] = 1.0f;
        e->places.first[i] = e->acts % EPISODE == 0;
    }
}

LIBENV_API void libenv_close(libenv_env *handle) {
    free(((struct points *)handle)->state);
    free(handle);
}
