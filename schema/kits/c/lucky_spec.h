/* What a client knows of an engine before the first step: sizes, types and names of its batch, as JSON in the segment. */
#ifndef LUCKY_SPEC_H
#define LUCKY_SPEC_H

#include "lucky_error.h"
#include "lucky_shm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LUCKY_MAX_AXES 8

/* One array per env. shape ends with a 0; a single number has none. low, high: NULL for no bounds, else `bounds` numbers:
 * 1 for all elements, or one for each in the order of memory. discrete: the values of a Discrete space, else 0. */
typedef struct {
    uint32_t dtype; /* LUCKY_DTYPE_... */
    uint32_t shape[LUCKY_MAX_AXES];
    const double *low, *high;
    uint32_t bounds, discrete;
} lucky_array;

/* An integer that a client sees by VectorEnv.get_attr. */
typedef struct {
    const char *name;
    int64_t value;
} lucky_attribute;

/* Lists of names end with NULL; a list that is NULL is empty. */
typedef struct {
    const char *engine;
    uint32_t num_envs;
    lucky_array observation, action;
    const char *const *reward_terms;      /* rows of the signals whose sum is the reward; at least one */
    const char *const *termination_terms; /* further rows: why an env ended, 0 or 1 */
    const char *const *timeout_terms;     /* those of them that truncate */
    const char *const *observation_names, *const *action_names;
    double step_s;   /* simulated seconds of one step; 0 when not known */
    int cannot_hold; /* 1: single envs cannot stand still while the others step */
    const lucky_attribute *attributes; /* in the order of their names; ends with a NULL name */
} lucky_spec;

static const char *const LUCKY_DTYPES[] = {"float32", "float64", "int8",   "int16",  "int32", "int64",
                                           "uint8",   "uint16",  "uint32", "uint64", "bool"};

static inline uint32_t lucky_dtype_bytes(uint32_t dtype) {
    static const uint8_t bytes[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
    return dtype < sizeof bytes ? bytes[dtype] : 0;
}

/* Elements per env. */
static inline uint64_t lucky_array_size(const lucky_array *a) {
    uint64_t size = 1;
    for (int axis = 0; axis < LUCKY_MAX_AXES && a->shape[axis] && size <= UINT32_MAX; axis++) size *= a->shape[axis];
    return size;
}

static inline uint32_t lucky_count_names(const char *const *names) {
    uint32_t count = 0;
    while (names && names[count]) count++;
    return count;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

typedef struct {
    char *text; /* NULL once memory ran out */
    size_t size, capacity;
} lucky_json;

static inline void lucky_json_put(lucky_json *j, const char *text) {
    size_t length = strlen(text);
    if (j->size + length + 1 > j->capacity) {
        j->capacity = (j->size + length + 1) * 2;
        char *larger = (char *)realloc(j->text, j->capacity);
        if (!larger) {
            free(j->text);
            j->capacity = 0;
        }
        j->text = larger;
    }
    if (j->text) memcpy(j->text + j->size, text, length + 1), j->size += length;
    else j->size = 0;
}

static inline void lucky_json_string(lucky_json *j, const char *text) {
    char one[8];
    lucky_json_put(j, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c == '"' || c == '\\') snprintf(one, sizeof one, "\\u%04x", c);
        else snprintf(one, sizeof one, "%c", c);
        lucky_json_put(j, one);
    }
    lucky_json_put(j, "\"");
}

static inline void lucky_json_names(lucky_json *j, const char *key, const char *const *names) {
    lucky_json_put(j, key);
    lucky_json_put(j, "[");
    for (uint32_t i = 0; names && names[i]; i++) {
        if (i) lucky_json_put(j, ",");
        lucky_json_string(j, names[i]);
    }
    lucky_json_put(j, "]");
}

/* The shortest digits that read back as this number; JSON has no infinity: null is no bound. */
static inline void lucky_json_double(lucky_json *j, double value) {
    char digits[40];
    if (!isfinite(value)) {
        lucky_json_put(j, "null");
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        for (char *c = digits; *c; c++)
            if (*c == ',') *c = '.'; /* of some locales */
        if (strtod(digits, NULL) == value) break;
    }
    lucky_json_put(j, digits);
    if (!strpbrk(digits, ".e")) lucky_json_put(j, ".0");
}

static inline void lucky_json_nested(lucky_json *j, const lucky_array *a, const double *values, int axis) {
    uint64_t stride = 1;
    for (int i = axis + 1; i < LUCKY_MAX_AXES && a->shape[i]; i++) stride *= a->shape[i];
    lucky_json_put(j, "[");
    for (uint32_t i = 0; i < a->shape[axis]; i++) {
        if (i) lucky_json_put(j, ",");
        if (axis + 1 < LUCKY_MAX_AXES && a->shape[axis + 1]) lucky_json_nested(j, a, values + i * stride, axis + 1);
        else lucky_json_double(j, values[i]);
    }
    lucky_json_put(j, "]");
}

static inline void lucky_json_bounds(lucky_json *j, const char *key, const lucky_array *a, const double *values) {
    lucky_json_put(j, key);
    if (!values) lucky_json_put(j, "null");
    else if (a->bounds == 1) lucky_json_double(j, *values);
    else lucky_json_nested(j, a, values, 0);
}

static inline void lucky_json_array(lucky_json *j, const char *key, const lucky_array *a) {
    char number[40];
    lucky_json_put(j, key);
    lucky_json_put(j, "{\"dtype\":");
    lucky_json_string(j, LUCKY_DTYPES[a->dtype]);
    lucky_json_bounds(j, ",\"high\":", a, a->high);
    lucky_json_bounds(j, ",\"low\":", a, a->low);
    snprintf(number, sizeof number, ",\"n\":%u,\"shape\":[", a->discrete);
    lucky_json_put(j, number);
    for (int axis = 0; axis < LUCKY_MAX_AXES && a->shape[axis]; axis++) {
        snprintf(number, sizeof number, axis ? ",%u" : "%u", a->shape[axis]);
        lucky_json_put(j, number);
    }
    lucky_json_put(j, "]}");
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static inline int lucky_check_bounds(const char *what, const lucky_array *a, uint64_t size, lucky_error *error) {
    for (uint64_t i = 0; (a->low || a->high) && i < size; i++) {
        uint64_t at = a->bounds == 1 ? 0 : i;
        double low = a->low ? a->low[at] : -INFINITY, high = a->high ? a->high[at] : INFINITY;
        if (isnan(low) || isnan(high))
            return lucky_fail(error, LUCKY_ERROR_SpecError, "%s: a bound of element %llu is NaN; expected a number, infinite for no bound",
                              what, (unsigned long long)i);
        if (low > high)
            return lucky_fail(error, LUCKY_ERROR_SpecError, "%s: low %g is above high %g at element %llu; swap them", what, low, high,
                              (unsigned long long)i);
    }
    return 0;
}

static inline int lucky_check_array(const char *what, const lucky_array *a, const char *const *names, lucky_error *error) {
    uint64_t size = lucky_array_size(a);
    uint32_t count = lucky_count_names(names);
    if (!lucky_dtype_bytes(a->dtype)) return lucky_fail(error, LUCKY_ERROR_SpecError, "%s: no dtype %u", what, a->dtype);
    if (size > INT32_MAX) return lucky_fail(error, LUCKY_ERROR_SpecError, "%s has more than %d elements", what, INT32_MAX);
    if ((a->low || a->high) && a->bounds != 1 && a->bounds != size)
        return lucky_fail(error, LUCKY_ERROR_SpecError, "%s has %u bounds for %llu elements; expected 1 or one for each", what,
                          a->bounds, (unsigned long long)size);
    if (count && count != size)
        return lucky_fail(error, LUCKY_ERROR_SpecError, "%s has %u names for %llu elements", what, count, (unsigned long long)size);
    if (a->discrete && (a->shape[0] || a->dtype == LUCKY_DTYPE_FLOAT32 || a->dtype == LUCKY_DTYPE_FLOAT64 || a->dtype == LUCKY_DTYPE_BOOL))
        return lucky_fail(error, LUCKY_ERROR_SpecError, "%s: discrete %u of %s; a Discrete space is one integer, without a shape", what,
                          a->discrete, LUCKY_DTYPES[a->dtype]);
    return lucky_check_bounds(what, a, size, error);
}

static inline int lucky_has_name(const char *const *names, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return 1;
    return 0;
}

static inline int lucky_check_unique(const char *what, const char *const *names, lucky_error *error) {
    for (uint32_t i = 0; i < lucky_count_names(names); i++)
        if (lucky_has_name(names, i, names[i]))
            return lucky_fail(error, LUCKY_ERROR_SpecError, "%s has '%.200s' twice; give each term a name of its own", what, names[i]);
    return 0;
}

static inline int lucky_check_spec(const lucky_spec *s, lucky_error *error) {
    if (!s->num_envs || s->num_envs > INT32_MAX) return lucky_fail(error, LUCKY_ERROR_SpecError, "num_envs %u: expected at least 1", s->num_envs);
    if (!lucky_count_names(s->reward_terms)) return lucky_fail(error, LUCKY_ERROR_SpecError, "a batch needs at least one reward term");
    if (lucky_check_unique("reward_terms", s->reward_terms, error) || lucky_check_unique("termination_terms", s->termination_terms, error))
        return -1;
    for (uint32_t i = 0; i < lucky_count_names(s->timeout_terms); i++)
        if (!lucky_has_name(s->termination_terms, lucky_count_names(s->termination_terms), s->timeout_terms[i]))
            return lucky_fail(error, LUCKY_ERROR_SpecError, "timeout term '%.200s' is no termination term; add it to termination_terms",
                              s->timeout_terms[i]);
    if (!(s->step_s >= 0) || isinf(s->step_s)) return lucky_fail(error, LUCKY_ERROR_SpecError, "step_s %g: expected seconds >= 0", s->step_s);
    if (lucky_check_array("observation", &s->observation, s->observation_names, error)) return -1;
    return lucky_check_array("action", &s->action, s->action_names, error);
}

/* The spec as JSON, keys in order and without spaces; free() it. NULL with SpecError for a spec that cannot be. */
static inline char *lucky_spec_json(const lucky_spec *s, lucky_error *error) {
    lucky_json j = {NULL, 0, 0};
    if (lucky_check_spec(s, error)) return NULL;
    char number[40];
    lucky_json_array(&j, "{\"action\":", &s->action);
    lucky_json_names(&j, ",\"action_groups\":[],\"action_names\":", s->action_names);
    lucky_json_put(&j, ",\"attributes\":{");
    for (uint32_t i = 0; s->attributes && s->attributes[i].name; i++) {
        if (i) lucky_json_put(&j, ",");
        lucky_json_string(&j, s->attributes[i].name);
        snprintf(number, sizeof number, ":%lld", (long long)s->attributes[i].value);
        lucky_json_put(&j, number);
    }
    lucky_json_put(&j, "},\"engine\":");
    lucky_json_string(&j, s->engine);
    lucky_json_put(&j, s->cannot_hold ? ",\"hold\":false" : ",\"hold\":true");
    snprintf(number, sizeof number, ",\"num_envs\":%u", s->num_envs);
    lucky_json_put(&j, number);
    lucky_json_array(&j, ",\"observation\":", &s->observation);
    lucky_json_names(&j, ",\"observation_names\":", s->observation_names);
    lucky_json_names(&j, ",\"observation_terms\":[],\"reset_ticks\":0,\"reward_terms\":", s->reward_terms);
    lucky_json_put(&j, ",\"step_s\":");
    lucky_json_double(&j, s->step_s);
    lucky_json_names(&j, ",\"termination_terms\":", s->termination_terms);
    lucky_json_names(&j, ",\"timeout_terms\":", s->timeout_terms);
    lucky_json_put(&j, "}");
    if (!j.text) lucky_fail(error, LUCKY_ERROR_NoSpace, "no memory for the spec");
    return j.text;
}

#endif
