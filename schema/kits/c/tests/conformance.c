/* Does with the kit what the lines of its standard input ask, and answers each with a line: the conformance vectors of
 * schema/kits/vectors. Words are separated by spaces, bytes are hexadecimal, "-" is none. */
#include "lucky_engine.h"

/* Zeros between guards, which nothing may touch. */
enum { GUARD = 0xA5, GUARD_BYTES = 4096 };

typedef struct {
    uint8_t *all, *start;
    size_t size;
} memory;

static memory zeros(size_t size) {
    memory m = {(uint8_t *)malloc(size + 2 * GUARD_BYTES), NULL, size};
    if (!m.all) abort();
    m.start = m.all + GUARD_BYTES;
    memset(m.all, GUARD, size + 2 * GUARD_BYTES);
    memset(m.start, 0, size);
    return m;
}

static void release(memory m) {
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (m.all[i] != GUARD || m.start[m.size + i] != GUARD) abort();
    free(m.all);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static char *position; /* in the line */

static char *word(void) { return strsep(&position, " "); }

static uint64_t number(void) {
    char *text = word();
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Memory of exactly the bytes, so that a sanitizer sees what is read beyond them; free() it. */
static uint8_t *bytes_of(const char *hex, uint32_t *size) {
    char digits[3] = "";
    *size = strcmp(hex, "-") ? (uint32_t)strlen(hex) / 2 : 0;
    uint8_t *bytes = (uint8_t *)malloc(*size ? *size : 1);
    if (!bytes) abort();
    for (uint32_t i = 0; i < *size; i++) {
        memcpy(digits, hex + 2 * i, 2);
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return bytes;
}

static void put_hex(const uint8_t *bytes, size_t size) {
    if (!size) putchar('-');
    for (size_t i = 0; i < size; i++) printf("%02x", bytes[i]);
    putchar(' ');
}

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

/* SPEC ENVS OBS_TYPE OBS_SIZE ACT_TYPE ACT_SIZE TERMS HOLD RING_BYTES PID STARTED: total size, header, spec */
static void segment(void) {
    uint32_t length;
    uint8_t *spec = bytes_of(word(), &length);
    char *text = strndup((char *)spec, length);
    lucky_sizes sizes;
    sizes.num_envs = (uint32_t)number();
    sizes.obs_dtype = (uint32_t)number();
    sizes.obs_size = (uint32_t)number();
    sizes.act_dtype = (uint32_t)number();
    sizes.act_size = (uint32_t)number();
    sizes.num_terms = (uint32_t)number();
    sizes.cannot_hold = !number();
    sizes.ring_bytes = (uint32_t)number();
    uint32_t pid = (uint32_t)number();
    lucky_plan plan = lucky_plan_of(&sizes, length);
    memory m = zeros(plan.total);
    lucky_header_write(m.start, &plan, &sizes, text, pid, number());
    printf("%llu ", (unsigned long long)plan.total);
    put_hex(m.start, LUCKY_EXTENSION_OFFSET + LUCKY_EXTENSION_BYTES);
    put_hex(m.start + plan.spec, length);
    release(m);
    free(text);
    free(spec);
}

/* SIZE POSITION (w:RECORD | r)...: what each step gives, then the memory */
static void ring(void) {
    uint32_t size = (uint32_t)number(), at = (uint32_t)number(), length, need;
    memory m = zeros(LUCKY_RING_HEAD_BYTES + size);
    memcpy(m.start, &at, 4);
    memcpy(m.start + LUCKY_RING_READ, &at, 4);
    lucky_ring writer = lucky_ring_at(m.start, size, at), reader = writer;
    uint8_t *copy = (uint8_t *)malloc(size);
    for (char *step; copy && (step = word());) {
        if (*step == 'r') {
            if (lucky_ring_pop(&reader, copy, &length) == LUCKY_RING_DONE) put_hex(copy, length);
            else printf("none ");
            continue;
        }
        uint8_t *record = bytes_of(step + 2, &length), *to = lucky_ring_reserve(&writer, length, &need);
        if (to) {
            memcpy(to, record, length);
            lucky_ring_publish(&writer, need);
        }
        printf("%s ", to ? "written" : need ? "full" : "refused");
        free(record);
    }
    put_hex(m.start, m.size);
    free(copy);
    release(m);
}

/* SIZE MEMORY: the records that can be read, then what ended it */
static void hostile_ring(void) {
    uint32_t size = (uint32_t)number(), length;
    uint8_t *content = bytes_of(word(), &length), *copy = (uint8_t *)malloc(size);
    memory m = zeros(length);
    memcpy(m.start, content, length);
    lucky_ring reader = lucky_ring_at(m.start, size, *(uint32_t *)(void *)(m.start + LUCKY_RING_READ));
    int state;
    while ((state = lucky_ring_pop(&reader, copy, &length)) == LUCKY_RING_DONE) put_hex(copy, length);
    printf("%s", state == LUCKY_RING_EMPTY ? "empty" : "RemoteProtocolError");
    free(copy);
    free(content);
    release(m);
}

/* RECORD: what the kit writes of what it read; metadata, which it only checks, are left out */
static void envelope(void) {
    uint32_t size;
    uint8_t *record = bytes_of(word(), &size);
    lucky_builder b;
    lucky_envelope e;
    lucky_error error;
    memset(&b, 0, sizeof b);
    if (lucky_envelope_read(record, size, &e, &error)) printf("RemoteProtocolError");
    else {
        lucky_envelope_write(&b, &e);
        put_hex(lucky_built(&b), b.used);
    }
    free(b.memory);
    free(record);
}

static void *word_named(const lucky_segment *s, const char *name) {
    if (!strcmp(name, "frame_seq")) return lucky_wide(s, LUCKY_OFFSET_FRAME_SEQ);
    if (!strcmp(name, "action_seq")) return lucky_wide(s, LUCKY_OFFSET_ACTION_SEQ);
    if (!strcmp(name, "frame_status")) return lucky_word(s, LUCKY_OFFSET_FRAME_STATUS);
    if (!strcmp(name, "park_frame")) return lucky_word(s, LUCKY_OFFSET_PARK_FRAME);
    return s->mapping.start + s->plan.ring_to_engine;
}

static void put_found(int found) {
    static const char *const names[] = {"Actions", "Control", "Commands", "OutOfOrder"};
    const char *before = "";
    if (!found) printf("Nothing");
    for (int bit = 0; bit < 4; bit++)
        if (found >> bit & 1) {
            printf("%s%s", before, names[bit]);
            before = "+";
        }
    putchar(' ');
}

/* ENVS RING_BYTES STEP...: what the steps that ask find */
static void exchange(void) {
    uint32_t num_envs = (uint32_t)number(), length;
    lucky_sizes sizes = {num_envs, 3, 1, 0, 0, 4, (uint32_t)number(), 0};
    lucky_segment s;
    memset(&s, 0, sizeof s);
    s.sizes = sizes;
    s.plan = lucky_plan_of(&sizes, 500);
    memory m = zeros(s.plan.total);
    s.mapping.start = m.start;
    lucky_channel channel;
    lucky_channel_init(&channel, &s);
    for (char *step; (step = word());) {
        char *verb = strsep(&step, ":"), *first = strsep(&step, ":");
        uint64_t value = strtoull(step ? step : first ? first : "0", NULL, 10);
        int is_wide = first && strstr(first, "_seq");
        if (!strcmp(verb, "next")) put_found(lucky_channel_next(&channel, 0));
        else if (!strcmp(verb, "publish")) lucky_channel_publish(&channel, (uint32_t)value);
        else if (!strcmp(verb, "resync")) lucky_channel_resync(&channel);
        else if (!strcmp(verb, "commands_read")) channel.commands_read = (uint32_t)value;
        else if (!strcmp(verb, "control")) {
            uint8_t *control = bytes_of(first, &length);
            memcpy(m.start + s.plan.control, control, length);
            free(control);
        } else if (!strcmp(verb, "store")) memcpy(word_named(&s, first), &value, is_wide ? 8 : 4);
        else {
            value = 0;
            memcpy(&value, word_named(&s, first), is_wide ? 8 : 4);
            printf("%llu ", (unsigned long long)value);
        }
    }
    release(m);
}

/* CLASS: its code */
static void error_code(void) {
    const char *name = word();
    for (uint32_t code = 0; code < sizeof LUCKY_ERRORS / sizeof *LUCKY_ERRORS; code++)
        if (!strcmp(name, lucky_error_name(code))) printf("%u", code);
}

int main(void) {
    static const struct {
        const char *name;
        void (*run)(void);
    } verbs[] = {{"segment", segment}, {"ring", ring}, {"hostile-ring", hostile_ring}, {"envelope", envelope},
                 {"exchange", exchange}, {"error", error_code}};
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        position = line;
        const char *verb = word();
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (!strcmp(verb, verbs[i].name)) verbs[i].run();
        putchar('\n');
        fflush(stdout);
    }
    free(line);
    return 0;
}
