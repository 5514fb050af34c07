/* Tensors of an engine's rows, and how their elements become libenv's. Part of exported.c.
 *
 * What a line says was computed by export/tensors.py from the engine's spec; here it is only read, but nothing
 * is written by it before it was compared with the segment.
 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS 1024

enum region { REGION_ROW = 0, REGION_TERMINATED = 1, REGION_TRUNCATED = 2 };

struct tensor {
    struct libenv_tensortype type;
    int space, region, source;
    size_t offset, count; /* bytes from the start of a row; elements of a row */
    long long shift;
};

static size_t libenv_bytes(enum libenv_dtype dtype) { return dtype == LIBENV_DTYPE_UINT8 ? 1 : 4; }

/* Elements that both sides spell alike are copied as they are. */
static int is_same(const struct tensor *t) {
    if (t->shift) return 0;
    if (t->type.dtype == LIBENV_DTYPE_FLOAT32) return t->source == LUCKY_DTYPE_FLOAT32;
    if (t->type.dtype == LIBENV_DTYPE_INT32) return t->source == LUCKY_DTYPE_INT32;
    return t->source == LUCKY_DTYPE_UINT8 || t->source == LUCKY_DTYPE_BOOL;
}

#define EACH_INTEGER(CASE)                                                                                   \
    CASE(LUCKY_DTYPE_INT8, int8_t) CASE(LUCKY_DTYPE_INT16, int16_t) CASE(LUCKY_DTYPE_INT32, int32_t)           \
    CASE(LUCKY_DTYPE_INT64, int64_t) CASE(LUCKY_DTYPE_UINT8, uint8_t) CASE(LUCKY_DTYPE_UINT16, uint16_t)       \
    CASE(LUCKY_DTYPE_UINT32, uint32_t) CASE(LUCKY_DTYPE_UINT64, uint64_t) CASE(LUCKY_DTYPE_BOOL, uint8_t)

static int is_real(int source) { return source == LUCKY_DTYPE_FLOAT32 || source == LUCKY_DTYPE_FLOAT64; }

static double load_real(const void *row, int source, size_t i) {
    return source == LUCKY_DTYPE_FLOAT32 ? (double)((const float *)row)[i] : ((const double *)row)[i];
}

static void store_real(void *row, int source, size_t i, double value) {
    if (source == LUCKY_DTYPE_FLOAT32) ((float *)row)[i] = (float)value;
    else ((double *)row)[i] = value;
}

static int64_t load_integer(const void *row, int source, size_t i) {
    switch (source) {
#define CASE(CODE, TYPE) \
    case CODE: return (int64_t)((const TYPE *)row)[i];
        EACH_INTEGER(CASE)
#undef CASE
    }
    return 0;
}

/* False, and nothing is stored, when the row's type cannot hold the value. */
static int store_integer(void *row, int source, size_t i, int64_t value) {
    if (source == LUCKY_DTYPE_BOOL && value != (value != 0)) return 0;
    switch (source) {
#define CASE(CODE, TYPE)                                                          \
    case CODE:                                                                    \
        if ((int64_t)(TYPE)value != value || ((TYPE)-1 > 0 && value < 0)) return 0; \
        ((TYPE *)row)[i] = (TYPE)value;                                           \
        return 1;
        EACH_INTEGER(CASE)
#undef CASE
    }
    return 0;
}

/* Our row -> libenv's. Only what an engine shows against its own spec wraps around. */
static void give(const struct tensor *t, const void *row, void *out) {
    if (is_same(t)) {
        memcpy(out, row, t->count * libenv_bytes(t->type.dtype));
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (is_real(t->source)) {
            ((float *)out)[i] = (float)load_real(row, t->source, i);
            continue;
        }
        uint64_t value = (uint64_t)load_integer(row, t->source, i) - (uint64_t)t->shift;
        if (t->type.dtype == LIBENV_DTYPE_INT32) ((int32_t *)out)[i] = (int32_t)value;
        else ((uint8_t *)out)[i] = (uint8_t)value;
    }
}

/* The first element of libenv's row that cannot be taken over, and why; `why` is empty for one that is not finite. */
struct refusal {
    size_t at;
    char why[64];
};

static int refuse(struct refusal *no, size_t at, int64_t value) {
    no->at = at;
    snprintf(no->why, sizeof no->why, "%" PRId64, value);
    return 0;
}

/* libenv's row -> ours; false when an element is refused. */
static int take(const struct tensor *t, const void *in, void *row, struct refusal *no) {
    *no = (struct refusal){0, ""};
    if (t->type.dtype == LIBENV_DTYPE_FLOAT32) {
        for (size_t i = 0; i < t->count; i++) {
            if (!isfinite(((const float *)in)[i])) return no->at = i, 0;
            store_real(row, t->source, i, (double)((const float *)in)[i]);
        }
        return 1;
    }
    for (size_t i = 0; i < t->count; i++) {
        int64_t given = t->type.dtype == LIBENV_DTYPE_INT32 ? ((const int32_t *)in)[i] : ((const uint8_t *)in)[i], value;
        if (__builtin_add_overflow(given, (int64_t)t->shift, &value) || !store_integer(row, t->source, i, value))
            return refuse(no, i, given);
    }
    return 1;
}

/* False when the dtype has no such bound. */
static int read_bound(enum libenv_dtype dtype, double value, union libenv_value *bound) {
    memset(bound, 0, sizeof *bound);
    if (dtype == LIBENV_DTYPE_FLOAT32) bound->float32 = (float)value;
    else if (dtype == LIBENV_DTYPE_INT32 && value >= INT32_MIN && value <= INT32_MAX) bound->int32 = (int32_t)value;
    else if (dtype == LIBENV_DTYPE_UINT8 && value >= 0 && value <= UINT8_MAX) bound->uint8 = (uint8_t)value;
    else return 0;
    return 1;
}

/* Read two numbers with a decimal point, whatever the host's locale takes for one. */
static int read_numbers(const char **line, double *first, double *second) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return 0;
    char *middle, *end;
    *first = strtod_l(*line, &middle, plain);
    *second = strtod_l(middle, &end, plain);
    freelocale(plain);
    int whole = middle != *line && end != middle;
    *line = end;
    return whole;
}

/* Read a line `tensor ...`; false when it is none. */
static int read_tensor(const char *line, struct tensor *t) {
    int scalar_type, dtype, ndim, length = 0;
    double low, high;
    memset(t, 0, sizeof *t);
    if (sscanf(line, "tensor %d %d %zu %d %d %d %lld%n", &t->space, &t->region, &t->offset, &t->source, &scalar_type,
               &dtype, &t->shift, &length) != 7)
        return 0;
    line += length;
    if (!read_numbers(&line, &low, &high) || sscanf(line, "%d%n", &ndim, &length) != 1 || ndim < 0 ||
        ndim > LIBENV_MAX_NDIM || !lucky_dtype_bytes((uint32_t)t->source))
        return 0;
    t->type.scalar_type = (enum libenv_scalar_type)scalar_type;
    t->type.dtype = (enum libenv_dtype)dtype;
    t->type.ndim = ndim;
    if (!read_bound(t->type.dtype, low, &t->type.low) || !read_bound(t->type.dtype, high, &t->type.high) ||
        (t->type.dtype == LIBENV_DTYPE_FLOAT32) != is_real(t->source))
        return 0;
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
