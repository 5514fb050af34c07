/* What both ends of a segment's step counters share. */
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
