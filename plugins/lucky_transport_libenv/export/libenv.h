/* The C interface of libenv, version 1: what a library of envs exports and what its host hands to it.
 *
 * Written down from the interface's facts (names, numbers, order of fields), so that a library compiled against this
 * header is one for gym3 and for every other host of libenv.
 *
 *     libenv_make -> libenv_get_tensortypes (twice per space: NULL gives the count) -> libenv_set_buffers, once
 *     libenv_observe -> libenv_act -> libenv_observe -> ... -> libenv_close
 */
#ifndef LUCKY_LIBENV_H
#define LUCKY_LIBENV_H

#include <stdint.h>

#define LIBENV_VERSION 1
#define LIBENV_MAX_NAME_LEN 128
#define LIBENV_MAX_NDIM 16
#define LIBENV_API __attribute__((visibility("default")))

typedef void libenv_env;

enum libenv_dtype { LIBENV_DTYPE_UINT8 = 1, LIBENV_DTYPE_INT32 = 2, LIBENV_DTYPE_FLOAT32 = 3 };
enum libenv_scalar_type { LIBENV_SCALAR_TYPE_REAL = 1, LIBENV_SCALAR_TYPE_DISCRETE = 2 };
enum libenv_space_name { LIBENV_SPACE_OBSERVATION = 1, LIBENV_SPACE_ACTION = 2, LIBENV_SPACE_INFO = 3 };

union libenv_value {
    uint8_t uint8;
    int32_t int32;
    float float32;
};

/* One named tensor of a space. */
struct libenv_tensortype {
    char name[LIBENV_MAX_NAME_LEN];
    enum libenv_scalar_type scalar_type;
    enum libenv_dtype dtype;
    int shape[LIBENV_MAX_NDIM];
    int ndim;
    union libenv_value low, high;
};

/* One option; `data` holds `count` elements and stays valid until the env is closed. */
struct libenv_option {
    char name[LIBENV_MAX_NAME_LEN];
    enum libenv_dtype dtype;
    int count;
    void *data;
};

struct libenv_options {
    struct libenv_option *items;
    int count;
};

/* The host's memory: pointers to rows, space by space: table[tensor * num_envs + env]. */
struct libenv_buffers {
    void **ob;
    float *rew;
    uint8_t *first;
    void **info;
    void **ac;
};

LIBENV_API int libenv_version(void);
LIBENV_API libenv_env *libenv_make(int num, const struct libenv_options options);
LIBENV_API int libenv_get_tensortypes(libenv_env *, enum libenv_space_name, struct libenv_tensortype *);
LIBENV_API void libenv_set_buffers(libenv_env *, struct libenv_buffers *);
LIBENV_API void libenv_observe(libenv_env *);
LIBENV_API void libenv_act(libenv_env *);
LIBENV_API void libenv_close(libenv_env *);

#endif
