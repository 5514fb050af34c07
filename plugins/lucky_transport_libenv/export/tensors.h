/* Tensors of an engine's rows, and how their elements become libenv's. Part of exported.c.
 *
 * Rule 1: what a line says was computed by export/tensors.py from the engine's spec; here it is only read, but nothing
 *         is written by it before it was compared with the segment.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MOST_TENSORS 1024

enum region { REGION_ROW = 0, REGION_TERMINATED = 1, REGION_TRUNCATED = 2 };

struct tensor {
    struct libenv_tensortype type;
    int space, region, source;
    size_t offset, count; /* bytes from the start of a row; elements of a row */
    long long shift;
};

static size_t source_bytes(int source) {
    static const uint8_t sizes[] = {
        [LUCKY_DTYPE_FLOAT32] = 4, [LUCKY_DTYPE_FLOAT64] = 8, [LUCKY_DTYPE_INT8] = 1,   [LUCKY_DTYPE_INT16] = 2,
        [LUCKY_DTYPE_INT32] = 4,   [LUCKY_DTYPE_INT64] = 8,   [LUCKY_DTYPE_UINT8] = 1,  [LUCKY_DTYPE_UINT16] = 2,
        [LUCKY_DTYPE_UINT32] = 4,  [LUCKY_DTYPE_UINT64] = 8,  [LUCKY_DTYPE_BOOL] = 1,
    };
    return source >= 0 && source < (int)sizeof sizes ? sizes[source] : 0;
}

static size_t libenv_bytes(enum libenv_dtype dtype) { return dtype == LIBENV_DTYPE_UINT8 ? 1 : 4; }

/* Elements that both sides spell alike are copied as they are. */
static int is_same(const struct tensor *t) {
    if (t->shift) return 0;
    if (t->type.dtype == LIBENV_DTYPE_FLOAT32) return t->source == LUCKY_DTYPE_FLOAT32;
    if (t->type.dtype == LIBENV_DTYPE_INT32) return t->source == LUCKY_DTYPE_INT32;
    return t->source == LUCKY_DTYPE_UINT8 || t->source == LUCKY_DTYPE_BOOL;
}

#define EACH_DTYPE(CASE)                                                                                       \
    CASE(LUCKY_DTYPE_FLOAT32, float) CASE(LUCKY_DTYPE_FLOAT64, double) CASE(LUCKY_DTYPE_INT8, int8_t)          \
    CASE(LUCKY_DTYPE_INT16, int16_t) CASE(LUCKY_DTYPE_INT32, int32_t) CASE(LUCKY_DTYPE_INT64, int64_t)         \
    CASE(LUCKY_DTYPE_UINT8, uint8_t) CASE(LUCKY_DTYPE_UINT16, uint16_t) CASE(LUCKY_DTYPE_UINT32, uint32_t)     \
    CASE(LUCKY_DTYPE_UINT64, uint64_t) CASE(LUCKY_DTYPE_BOOL, uint8_t)

/* One element of a row. Integers that are told to libenv are below 2**31, so a double holds each of them. */
static double load(const void *row, int source, size_t i) {
    switch (source) {
#define CASE(CODE, TYPE) \
    case CODE: return (double)((const TYPE *)row)[i];
        EACH_DTYPE(CASE)
#undef CASE
    }
    return 0;
}

static void store(void *row, int source, size_t i, double value) {
    switch (source) {
#define CASE(CODE, TYPE)                      \
    case CODE: ((TYPE *)row)[i] = (TYPE)value; \
        break;
        EACH_DTYPE(CASE)
#undef CASE
    }
}

/* Our row -> libenv's. */
static void give(const struct tensor *t, const void *row, void *out) {
    if (is_same(t)) {
        memcpy(out, row, t->count * libenv_bytes(t->type.dtype));
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        double value = load(row, t->source, i) - (double)t->shift;
        if (t->type.dtype == LIBENV_DTYPE_FLOAT32) ((float *)out)[i] = (float)value;
        else if (t->type.dtype == LIBENV_DTYPE_INT32) ((int32_t *)out)[i] = (int32_t)value;
        else ((uint8_t *)out)[i] = (uint8_t)value;
    }
}

static double libenv_element(const struct tensor *t, const void *in, size_t i) {
    if (t->type.dtype == LIBENV_DTYPE_FLOAT32) return (double)((const float *)in)[i];
    if (t->type.dtype == LIBENV_DTYPE_INT32) return (double)((const int32_t *)in)[i];
    return (double)((const uint8_t *)in)[i];
}

/* libenv's row -> ours; the first element that is NaN or infinite, -1 when there is none. */
static long take(const struct tensor *t, const void *in, void *row) {
    if (t->type.dtype == LIBENV_DTYPE_FLOAT32)
        for (size_t i = 0; i < t->count; i++)
            if (!isfinite(((const float *)in)[i])) return (long)i;
    if (is_same(t)) memcpy(row, in, t->count * libenv_bytes(t->type.dtype));
    else
        for (size_t i = 0; i < t->count; i++) store(row, t->source, i, libenv_element(t, in, i) + (double)t->shift);
    return -1;
}

static union libenv_value bound(enum libenv_dtype dtype, double value) {
    union libenv_value bound = {0};
    if (dtype == LIBENV_DTYPE_FLOAT32) bound.float32 = (float)value;
    else if (dtype == LIBENV_DTYPE_INT32) bound.int32 = (int32_t)value;
    else bound.uint8 = (uint8_t)value;
    return bound;
}

/* Read a line `tensor ...`; 0 when it is none. */
static int read_tensor(const char *line, struct tensor *t) {
    int scalar_type, dtype, ndim, length = 0;
    double low, high;
    memset(t, 0, sizeof *t);
    if (sscanf(line, "tensor %d %d %zu %d %d %d %lld %lf %lf %d%n", &t->space, &t->region, &t->offset, &t->source,
               &scalar_type, &dtype, &t->shift, &low, &high, &ndim, &length) != 10 ||
        ndim < 0 || ndim > LIBENV_MAX_NDIM || !source_bytes(t->source))
        return 0;
    t->type.scalar_type = (enum libenv_scalar_type)scalar_type;
    t->type.dtype = (enum libenv_dtype)dtype;
    t->type.ndim = ndim;
    t->type.low = bound(t->type.dtype, low);
    t->type.high = bound(t->type.dtype, high);
    t->count = 1;
    line += length;
    for (int i = 0; i < ndim; i++, line += length) {
        if (sscanf(line, "%d%n", &t->type.shape[i], &length) != 1 || t->type.shape[i] < 1) return 0;
        t->count *= (size_t)t->type.shape[i];
    }
    if (*line != ' ' || !line[1] || strlen(line + 1) >= LIBENV_MAX_NAME_LEN) return 0;
    strcpy(t->type.name, line + 1);
    return 1;
}
