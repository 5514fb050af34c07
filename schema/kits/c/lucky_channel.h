/* The engine's end of the step counters: it looks for actions and commands, and announces frames. */
#ifndef LUCKY_CHANNEL_H
#define LUCKY_CHANNEL_H

#include "lucky_segment.h"

/* What a look finds: bits. CONTROL: beside actions, some control byte is not 0. */
enum { LUCKY_FOUND_ACTIONS = 1, LUCKY_FOUND_CONTROL = 2, LUCKY_FOUND_COMMANDS = 4, LUCKY_FOUND_OUT_OF_ORDER = 8 };

typedef struct {
    const lucky_segment *segment;
    lucky_waiter waiter;
    uint64_t frames;        /* announced so far; the shared word is for the client alone */
    uint32_t commands_read; /* position of the client's ring that needs no further look */
    int peer_parks;
    volatile uint32_t stopping;
} lucky_channel;

/* What the client does: whether it has to be woken, and whether it wakes this side. */
static inline void lucky_channel_peer(lucky_channel *c, uint32_t features) {
    c->peer_parks = !!(features & LUCKY_FEATURE_PARKS);
    c->waiter.peer_wakes = !!(features & LUCKY_FEATURE_WAKE);
    lucky_store32(c->waiter.park + 1, 0); /* the CPU of the client before it, if it says none itself */
}

static inline void lucky_channel_init(lucky_channel *c, const lucky_segment *s) {
    memset(c, 0, sizeof *c);
    c->segment = s;
    c->waiter.park = lucky_word(s, LUCKY_OFFSET_PARK_ENGINE);
    c->frames = lucky_load64(lucky_wide(s, LUCKY_OFFSET_FRAME_SEQ));
    lucky_channel_peer(c, LUCKY_FEATURE_WAKE | LUCKY_FEATURE_PARKS);
}

static inline int lucky_any_control(const uint8_t *control, uint32_t count) {
    uint8_t any = 0;
    for (uint32_t i = 0; i < count; i++) any |= control[i];
    return any != 0;
}

/* Wait for work at most so long, and say what there is. */
static inline int lucky_channel_next(lucky_channel *c, int64_t timeout_ns) {
    const lucky_segment *s = c->segment;
    uint64_t *actions = lucky_wide(s, LUCKY_OFFSET_ACTION_SEQ), *heartbeat = lucky_wide(s, LUCKY_OFFSET_HEARTBEAT);
    uint32_t *commands = (uint32_t *)(void *)(s->mapping.start + s->plan.ring_to_engine);
    lucky_watch watch = {actions, c->frames, commands, c->commands_read, &c->stopping};
    __atomic_store_n(heartbeat, __atomic_load_n(heartbeat, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    if (!lucky_wait(&watch, &c->waiter, timeout_ns)) return 0;
    uint64_t sequence = lucky_load64(actions);
    int found = lucky_load32(commands) != c->commands_read ? LUCKY_FOUND_COMMANDS : 0;
    if (sequence == c->frames) return found;
    if (sequence != c->frames + 1) return LUCKY_FOUND_OUT_OF_ORDER;
    LUCKY_FAULT("actions.received");
    int control = lucky_any_control(s->mapping.start + s->plan.control, s->sizes.num_envs);
    return found | LUCKY_FOUND_ACTIONS | (control ? LUCKY_FOUND_CONTROL : 0);
}

/* Announce the frame; a status that is not 0 is the code of the error that there is instead of one. */
static inline void lucky_channel_publish(lucky_channel *c, uint32_t status) {
    LUCKY_FAULT("frame.written");
    *lucky_word(c->segment, LUCKY_OFFSET_FRAME_STATUS) = status;
    lucky_tell_cpu(lucky_word(c->segment, LUCKY_OFFSET_PARK_FRAME), lucky_own_cpu());
    LUCKY_FAULT("frame.status");
    lucky_store64(lucky_wide(c->segment, LUCKY_OFFSET_FRAME_SEQ), ++c->frames);
    LUCKY_FAULT("frame.counted");
    if (c->peer_parks) lucky_wake(lucky_word(c->segment, LUCKY_OFFSET_PARK_FRAME));
    LUCKY_FAULT("frame.sent");
}

/* Drop the exchange that does not fit. */
static inline void lucky_channel_resync(lucky_channel *c) {
    lucky_store64(lucky_wide(c->segment, LUCKY_OFFSET_ACTION_SEQ), c->frames);
}

/* 1 when the client waits for the frame that comes next. */
static inline int lucky_channel_is_awaited(const lucky_channel *c) {
    return lucky_load64(lucky_wide(c->segment, LUCKY_OFFSET_ACTION_SEQ)) == c->frames + 1;
}

#endif
