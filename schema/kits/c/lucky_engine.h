/* An engine: steps a batch of envs for one client after the other, through a segment in /dev/shm.
 *
 *   lucky_engine engine = {&spec, my_step, &my_world, handlers, 2};
 *   lucky_server server;
 *   lucky_error error;
 *   if (lucky_open(&server, "my_name", &engine, LUCKY_DEFAULT_RING_BYTES, &error)) ...
 *   lucky_handle_signals(&server);                  SIGINT and SIGTERM end lucky_run
 *   int failed = lucky_run(&server, &error);        serves, then removes the segment
 *
 * README.md has a whole one.
 */
#ifndef LUCKY_ENGINE_H
#define LUCKY_ENGINE_H

#include "lucky_calls.h"
#include "lucky_channel.h"

/* One exchange. Rows of env after env; signals: [term][env], the reward terms, then the termination terms. Signals and flags
 * are 0 when it begins, but for held envs. */
typedef struct {
    uint32_t num_envs;
    const void *actions;
    void *observations;
    float *signals;
    uint8_t *terminated, *truncated;
    const uint8_t *control; /* a byte per env; NULL: every env advances */
} lucky_step;

/* Begin a new episode and write its first observation; the kit sets reward, flags and signals to 0. */
static inline int lucky_is_reset(const lucky_step *s, uint32_t env) { return s->control && s->control[env] & LUCKY_CONTROL_RESET; }

/* Leave this env and all its rows as they are. */
static inline int lucky_is_held(const lucky_step *s, uint32_t env) {
    return s->control && (s->control[env] & (LUCKY_CONTROL_RESET | LUCKY_CONTROL_HOLD)) == LUCKY_CONTROL_HOLD;
}

/* No new actions came: a policy of your own may drive. */
static inline int lucky_is_tick(const lucky_step *s, uint32_t env) {
    return s->control && (s->control[env] & (LUCKY_CONTROL_RESET | LUCKY_CONTROL_HOLD | LUCKY_CONTROL_TICK)) == LUCKY_CONTROL_TICK;
}

/* step: 0, or -1 after lucky_fail(error, LUCKY_ERROR_EngineFailed, ...), which the client's step raises. Envs before the failing
 * one have advanced then, so a VectorEnv raises NeedsReset until its reset; the engine gets that reset as usual. All functions
 * of an engine run on the thread that called lucky_run. */
typedef struct {
    const lucky_spec *spec;
    int (*step)(void *user, const lucky_step *step, lucky_error *error);
    void *user;
    const lucky_handler *handlers;
    uint32_t num_handlers;
} lucky_engine;

typedef struct {
    lucky_engine engine;
    lucky_segment segment;
    lucky_channel channel;
    lucky_calls calls;
    uint8_t *control;
    uint32_t num_reward_terms, num_terms, client_pid;
    uint64_t client_byte, client_start;
    int has_client, commands_wait;
    volatile sig_atomic_t is_cut;
    struct sigaction handled_before[3];
} lucky_server;

/* ---- the client -------------------------------------------------------------------------------------------------- */

static inline int lucky_await_client(lucky_server *s, lucky_error *error) {
    s->commands_wait = 0;
    s->channel.commands_read = 0;
    return lucky_calls_begin(&s->calls, &s->segment, error);
}

static inline void lucky_know_client(lucky_server *s) {
    uint32_t pid = lucky_load32(lucky_word(&s->segment, LUCKY_OFFSET_CLIENT_PID));
    if (!pid || (s->has_client && s->client_pid == pid)) return;
    LUCKY_FAULT("client.seen");
    s->has_client = 1;
    s->client_pid = pid; /* for messages, and for a client without a lock */
    s->client_byte = lucky_load64(lucky_wide(&s->segment, LUCKY_OFFSET_CLIENT_LOCK));
    s->client_start = lucky_load64(lucky_wide(&s->segment, LUCKY_OFFSET_CLIENT_START));
    lucky_channel_peer(&s->channel, lucky_load32(lucky_word(&s->segment, LUCKY_OFFSET_CLIENT_FEATURES)));
}

static inline int lucky_client_lives(const lucky_server *s) {
    if (s->client_byte) return lucky_lock_is_held(&s->segment.lock, s->client_byte);
    uint64_t start = lucky_start_time(s->client_pid);
    return start && (!s->client_start || start == s->client_start);
}

static inline int lucky_let_go(lucky_server *s, lucky_error *error) {
    lucky_segment *g = &s->segment;
    s->has_client = 0;
    lucky_channel_peer(&s->channel, LUCKY_FEATURE_WAKE | LUCKY_FEATURE_PARKS);
    lucky_channel_resync(&s->channel);
    LUCKY_FAULT("client.resync");
    lucky_calls_close(&s->calls);
    LUCKY_FAULT("client.calls_closed");
    /* What the engine said last is still to be read when it ends. */
    int failed = s->channel.stopping ? 0 : lucky_await_client(s, error);
    LUCKY_FAULT("client.rings_emptied");
    lucky_store64(lucky_wide(g, LUCKY_OFFSET_CLIENT_LOCK), 0);
    lucky_store64(lucky_wide(g, LUCKY_OFFSET_CLIENT_PID_NAMESPACE), 0);
    lucky_store64(lucky_wide(g, LUCKY_OFFSET_CLIENT_START), 0);
    lucky_store32(lucky_word(g, LUCKY_OFFSET_CLIENT_PID), 0);
    LUCKY_FAULT("client.cleared");
    lucky_store32(lucky_word(g, LUCKY_OFFSET_CLIENT_FEATURES), 0); /* last: the next client waits for it */
    LUCKY_FAULT("client.let_go");
    return failed;
}

/* Between exchanges: notice a client that came, left, died or broke the counters. */
static inline int lucky_look_after_client(lucky_server *s, int found, lucky_error *error) {
    if (lucky_map_check(&s->segment.mapping, error)) {
        s->is_cut = 1;
        return -1;
    }
    if (found == LUCKY_FOUND_OUT_OF_ORDER) {
        fprintf(stderr, "lucky_transport: the client broke the action counter; its exchange is dropped\n");
        lucky_channel_resync(&s->channel);
    }
    if (lucky_load32(lucky_word(&s->segment, LUCKY_OFFSET_CLIENT_PID))) {
        lucky_know_client(s);
        if (lucky_client_lives(s)) return 0;
        fprintf(stderr, "lucky_transport: the client, process %u, ended without closing\n", s->client_pid);
        return lucky_let_go(s, error);
    }
    /* One that has come and gone between two looks; one that is coming has its start time there. */
    int left_unseen = lucky_load32(lucky_word(&s->segment, LUCKY_OFFSET_CLIENT_FEATURES)) &&
                      !lucky_load64(lucky_wide(&s->segment, LUCKY_OFFSET_CLIENT_START));
    return s->has_client || left_unseen ? lucky_let_go(s, error) : 0;
}

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

static inline void lucky_clear_env(const lucky_server *s, const lucky_step *step, uint32_t env) {
    step->terminated[env] = step->truncated[env] = 0;
    for (uint32_t term = 0; term < s->num_terms; term++) step->signals[(size_t)term * step->num_envs + env] = 0;
}

/* What a step does not write is 0, and not what the last one wrote; held envs keep theirs. */
static inline void lucky_begin_step(const lucky_server *s, const lucky_step *step) {
    size_t n = step->num_envs;
    if (!step->control) {
        memset(step->signals, 0, s->num_terms * n * sizeof *step->signals);
        memset(step->terminated, 0, n);
        memset(step->truncated, 0, n);
        return;
    }
    for (uint32_t env = 0; env < n; env++)
        if (!lucky_is_held(step, env)) lucky_clear_env(s, step, env);
}

/* Sum the rewards, in float32 and one row after the other, as every side of the wire does. */
static inline void lucky_finish_step(lucky_server *s, const lucky_step *step, float *rewards) {
    uint32_t n = step->num_envs;
    for (uint32_t env = 0; step->control && env < n; env++)
        if (lucky_is_reset(step, env)) lucky_clear_env(s, step, env);
    memcpy(rewards, step->signals, (size_t)n * 4);
    for (uint32_t term = 1; term < s->num_reward_terms; term++) {
        const float *row = step->signals + (size_t)term * n;
        for (uint32_t env = 0; env < n; env++) rewards[env] += row[env];
    }
}

static inline void lucky_exchange(lucky_server *s, int has_control) {
    uint8_t *start = s->segment.mapping.start;
    const lucky_plan *p = &s->segment.plan;
    lucky_error error = {LUCKY_ERROR_EngineFailed, "the engine's step failed"};
    if (!s->has_client) lucky_know_client(s);
    /* The control bytes are read once: the client could change them meanwhile. */
    if (has_control) memcpy(s->control, start + p->control, s->segment.sizes.num_envs);
    lucky_step step = {s->segment.sizes.num_envs, start + p->actions, start + p->observations, (float *)(void *)(start + p->signals),
                       start + p->terminated, start + p->truncated, has_control ? s->control : NULL};
    uint32_t status = 0;
    lucky_begin_step(s, &step);
    if (s->engine.step(s->engine.user, &step, &error)) {
        if (!error.code) error.code = LUCKY_ERROR_EngineFailed;
        fprintf(stderr, "lucky_transport: the step failed: %s: %s\n", lucky_error_name(error.code), error.text);
        lucky_segment_error(&s->segment, &error);
        status = error.code;
    } else lucky_finish_step(s, &step, (float *)(void *)(start + p->rewards));
    lucky_channel_publish(&s->channel, status);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static inline void lucky_feed(lucky_server *s) {
    lucky_error error;
    int state = lucky_calls_feed(&s->calls, &error);
    if (state < 0) fprintf(stderr, "lucky_transport: %s; the client's commands are dropped\n", error.text);
    s->commands_wait = !state;
    s->channel.commands_read = state > 0 && !s->calls.closed ? s->calls.in.position : lucky_calls_written(&s->calls);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static inline int lucky_check_handlers(const lucky_engine *engine, lucky_error *error) {
    for (uint32_t i = 0; i < engine->num_handlers; i++)
        for (uint32_t j = 0; j < i; j++)
            if (engine->handlers[i].method == engine->handlers[j].method)
                return lucky_fail(error, LUCKY_ERROR_ConfigError, "%s has a handler already; register one for each method",
                                  lucky_method_path(engine->handlers[i].method));
    return 0;
}

/* Make the segment; a dead engine's of that name is replaced. 0, or -1 with Busy when a living engine has it, SegmentError
 * when the name belongs to something else, NoSpace, ConfigError for a name that is none or a method with two handlers,
 * SpecError. The spec is read now and not kept. */
static inline int lucky_open(lucky_server *s, const char *name, const lucky_engine *engine, uint32_t ring_bytes, lucky_error *error) {
    memset(s, 0, sizeof *s);
    s->engine = *engine;
    s->num_reward_terms = lucky_count_names(engine->spec->reward_terms);
    s->num_terms = s->num_reward_terms + lucky_count_names(engine->spec->termination_terms);
    s->calls.engine = engine->spec->engine;
    s->calls.handlers = engine->handlers;
    s->calls.num_handlers = engine->num_handlers;
    s->calls.user = engine->user;
    if (lucky_check_handlers(engine, error)) return -1;
    if (lucky_segment_make(&s->segment, name, engine->spec, ring_bytes, error)) return -1;
    s->control = (uint8_t *)malloc(engine->spec->num_envs);
    lucky_channel_init(&s->channel, &s->segment);
    if (s->control && !lucky_await_client(s, error)) return 0;
    lucky_fail(error, LUCKY_ERROR_NoSpace, "no memory for %u envs", engine->spec->num_envs);
    free(s->control);
    lucky_segment_remove(&s->segment);
    return -1;
}

/* Make lucky_run return, within a second at most; from any thread, and from a signal handler. */
static inline void lucky_stop(lucky_server *s) {
    s->channel.stopping = 1;
    syscall(SYS_futex, s->channel.waiter.park, FUTEX_WAKE, 1, NULL, NULL, 0); /* not lucky_wake: the memory may be gone */
}

#define LUCKY_IDLE_NS 1000000000 /* a client that comes wakes us; it says its features first */

/* One wait and what it finds; 0, or -1 with SegmentError. */
static inline int lucky_turn(lucky_server *s, lucky_error *error) {
    int has_any = s->has_client || lucky_load32(lucky_word(&s->segment, LUCKY_OFFSET_CLIENT_FEATURES));
    int64_t wait = lucky_pump_streams(&s->calls, has_any ? LUCKY_SLICE_NS : LUCKY_IDLE_NS);
    if (s->calls.out.first && wait > LUCKY_FREED_POLL_NS) wait = LUCKY_FREED_POLL_NS;
    int found = lucky_channel_next(&s->channel, wait);
    if ((!found || found == LUCKY_FOUND_OUT_OF_ORDER) && lucky_look_after_client(s, found, error)) return -1;
    if (found & LUCKY_FOUND_COMMANDS) lucky_feed(s);
    if (found & LUCKY_FOUND_ACTIONS) lucky_exchange(s, found & LUCKY_FOUND_CONTROL);
    if (s->commands_wait) lucky_feed(s);
    lucky_outbox_flush(&s->calls.out);
    if (!s->is_cut) return 0;
    return lucky_fail(error, LUCKY_ERROR_SegmentError, "%s was cut by another process; start the engine again", s->segment.mapping.path);
}

/* Whom signals stop: one variable, in however many source files this header is. */
__attribute__((weak)) lucky_server *volatile lucky_signalled;
static const int lucky_signals[] = {SIGINT, SIGTERM, SIGBUS};

static inline void lucky_unhandle_signals(lucky_server *s) {
    if (lucky_signalled != s) return;
    for (int i = 0; i < 3; i++) sigaction(lucky_signals[i], &s->handled_before[i], NULL);
    lucky_signalled = NULL;
}

/* Remove the segment; a client is told. */
static inline void lucky_close(lucky_server *s) {
    lucky_error why, ignored;
    if (!s->segment.mapping.start) return;
    s->channel.stopping = 1;
    lucky_fail(&why, LUCKY_ERROR_ClosedError, "the engine is closing");
    if (!s->is_cut) {
        lucky_store32(lucky_word(&s->segment, LUCKY_OFFSET_ENGINE_STATE), LUCKY_STATE_CLOSING);
        if (lucky_channel_is_awaited(&s->channel)) {
            lucky_segment_error(&s->segment, &why);
            lucky_channel_publish(&s->channel, why.code);
        }
        lucky_calls_shut_down(&s->calls, &why);
        lucky_let_go(s, &ignored);
    } else lucky_calls_close(&s->calls);
    lucky_unhandle_signals(s);
    lucky_segment_remove(&s->segment);
    free(s->calls.record);
    free(s->calls.message.memory);
    free(s->control);
}

/* Serve until lucky_stop, then remove the segment. 0, or -1 with SegmentError when another process cut its file. */
static inline int lucky_run(lucky_server *s, lucky_error *error) {
    int failed = 0;
    lucky_segment_publish(&s->segment);
    while (!failed && !s->channel.stopping) failed = lucky_turn(s, error);
    lucky_close(s);
    return failed;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static inline void lucky_on_stop(int number) {
    int saved = errno;
    (void)number;
    if (lucky_signalled) lucky_stop(lucky_signalled);
    errno = saved;
}

/* Put zeros where another process took memory away; 0 when the address is not in this mapping. */
static inline int lucky_patch(const lucky_mapping *m, const void *address) {
    const uint8_t *at = (const uint8_t *)address;
    if (!m->start || at < m->start || at >= m->start + m->size) return 0;
    return mmap(m->start, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static inline void lucky_on_bus_error(int number, siginfo_t *info, void *context) {
    lucky_server *s = lucky_signalled;
    int saved = errno, patched = s && lucky_patch(&s->segment.mapping, info->si_addr);
    (void)context;
    if (patched) s->is_cut = 1; /* lucky_run returns after this turn */
    for (uint32_t i = 0; s && !patched && i < LUCKY_IMAGE_FILES; i++)
        patched = s->calls.images.files[i].used && lucky_patch(&s->calls.images.files[i].mapping, info->si_addr);
    if (!patched) signal(number, SIG_DFL); /* not ours: the same access ends the process */
    errno = saved;
}

/* SIGINT and SIGTERM end lucky_run of this server, which removes the segment. SIGBUS, which the system sends when another
 * process of this user cut the segment's file, ends it with SegmentError. lucky_close puts back the handlers that were
 * there before. One server of a process at a time. */
static inline void lucky_handle_signals(lucky_server *s) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    if (lucky_signalled) lucky_unhandle_signals(lucky_signalled);
    lucky_signalled = s;
    for (int i = 0; i < 3; i++) {
        if (lucky_signals[i] != SIGBUS) action.sa_handler = lucky_on_stop; /* no SA_RESTART: a wait ends at once */
        else action.sa_sigaction = lucky_on_bus_error;
        action.sa_flags = lucky_signals[i] == SIGBUS ? SA_SIGINFO : 0;
        sigaction(lucky_signals[i], &action, &s->handled_before[i]);
    }
}

#endif
