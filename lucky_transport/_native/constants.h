/* Made from native.py, channel.py, wait.py, ring.py, arena.py and timing.py, which say what each is, by
 * schema/generate.py; do not edit.
 */
#ifndef LUCKY_CONSTANTS_H
#define LUCKY_CONSTANTS_H

#define NATIVE_VERSION 35
#define FRAME 0
#define FRAME_ENDED 1
#define FRAME_REFUSED 2
#define TIMED_OUT (-1)
#define OUT_OF_ORDER (-3)
#define NOT_TRIED (-10)
#define UNFIT_ACTIONS (-11)
#define NOT_FINITE (-12)
#define UNFIT_CONTROL (-13)
#define HAS_ACTIONS 1
#define HAS_CONTROL 2
#define HAS_COMMANDS 4
#define WAIT_SPIN 0
#define WAIT_ADAPTIVE 1
#define WAIT_BLOCK 2
#define WAIT_OVERSUBSCRIBED 3
#define PEER_WAKES 1
#define RING_READ 128
#define RING_FREED 192
#define RING_HEAD 256
#define RING_SKIP 0xffffffffu
#define RING_STEP 0x10000u
#define RING_SMALLEST 64u
#define RING_LARGEST 0x80000000u
#define RING_REFERENCE 4294967294
#define REFERENCE_BYTES 28
#define SLAB_ALIGNMENT 64
#define ARENA_LARGEST 2147483648
#define ARENAS_LARGEST 268435456
#define ARENA_STEP 262144
#define ARENA_RESTS_NS 2000000000
#define ARENA_REFUSED_NS 1000000000
#define COPY_WITHOUT_GIL 262144
#define AROUND_MESSAGE 65536
#define APART_BYTES 4096
#define GIL_LOOKS 64
#define PAUSE_NS 10000
#define LOST_CORE_NS 1000000
#define LOST_CORE_WAITS 256
#define PAUSES 16
#define YIELD_NS 150000
#define SOON_NS 800000
#define SCORE_SOON 4
#define SCORE_LATE (-2)
#define SLICE_NS 30000000
#define SIGNAL_LOOKS 64
#define SPIN_SLICE_NS 10000000
#define POLL_NS 500000
#define TAKE_OVER_NS 200000000
#define FREED_POLL_NS 1000000
#define FREED_SLICE_NS 20000000

#endif
