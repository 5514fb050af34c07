/* The step counters of a segment: one exchange at a time, the client's actions against the engine's frame.
 *
 *   state      action_seq   frame_seq   next
 *   idle       n            n           the client writes actions and control, stores action_seq and wakes the engine
 *   stepping   n + 1        n           the engine reads them, writes the frame, stores frame_seq and wakes the client
 *   any other                           OUT_OF_ORDER; the engine's `resync` makes it idle again
 *
 * Each side keeps its own counter privately and stores the shared one for the peer alone. Commands written before
 * action_seq are in the ring when the engine sees it.
 */
#ifndef LUCKY_CHANNEL_H
#define LUCKY_CHANNEL_H

#include "batch_scan.h"
#include "wait.h"

/* The tuple `ChannelOffsets` of channel.py, field by field: where the words and regions of the exchange lie. */
typedef struct {
    unsigned long long frame_seq, frame_status, action_seq, heartbeat, park_engine, park_frame, commands, actions,
        control, terminated, truncated;
    unsigned int num_envs;
} ChannelOffsets;

/* 0, or -1 with an exception. */
static inline int channel_offsets(PyObject *tuple, ChannelOffsets *o) {
    return PyArg_ParseTuple(tuple, "KKKKKKKKKKKI", &o->frame_seq, &o->frame_status, &o->action_seq, &o->heartbeat,
                            &o->park_engine, &o->park_frame, &o->commands, &o->actions, &o->control, &o->terminated,
                            &o->truncated, &o->num_envs)
               ? 0
               : -1;
}

#endif
