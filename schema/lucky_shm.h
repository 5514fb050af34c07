/* The layout of a lucky_transport segment, version 1 (little-endian).
 *
 * Made from lucky_transport/shm/segment/layout.py by schema/generate.py; do not edit.
 * Counters (frame_seq, action_seq), park words and the version need acquire loads and release stores.
 */
#ifndef LUCKY_SHM_H
#define LUCKY_SHM_H

#include <stdint.h>

#define LUCKY_MAGIC 0x4c524243u
#define LUCKY_VERSION 1u
#define LUCKY_HEADER_BYTES 4096
#define LUCKY_EXTENSION_OFFSET 1024
#define LUCKY_EXTENSION_BYTES 1024
#define LUCKY_REGION_ALIGNMENT 64
#define LUCKY_RING_HEAD_BYTES 256
#define LUCKY_ERROR_BYTES 4096

/* What a side understands: bits of engine_features and client_features. */
#define LUCKY_FEATURE_WAKE 1u
#define LUCKY_FEATURE_HOLD 2u
#define LUCKY_FEATURE_STATUS 4u
#define LUCKY_FEATURE_SIGNALS 8u
#define LUCKY_FEATURE_TRUNCATED 16u
#define LUCKY_FEATURE_SPEC 32u
#define LUCKY_FEATURE_PARKS 64u
#define LUCKY_FEATURE_SLOTS 128u
#define LUCKY_FEATURE_ARENAS 256u
#define LUCKY_FEATURE_DEVICE_ONLY 512u
#define LUCKY_FEATURE_ENVS 1024u
#define LUCKY_FEATURE_EVENTS 2048u

/* Element types: values of obs_dtype and act_dtype. */
#define LUCKY_DTYPE_FLOAT32 0u
#define LUCKY_DTYPE_FLOAT64 1u
#define LUCKY_DTYPE_INT8 2u
#define LUCKY_DTYPE_INT16 3u
#define LUCKY_DTYPE_INT32 4u
#define LUCKY_DTYPE_INT64 5u
#define LUCKY_DTYPE_UINT8 6u
#define LUCKY_DTYPE_UINT16 7u
#define LUCKY_DTYPE_UINT32 8u
#define LUCKY_DTYPE_UINT64 9u
#define LUCKY_DTYPE_BOOL 10u

/* Header fields: byte offset and type. */
#define LUCKY_OFFSET_MAGIC 0 /* uint32_t: 0x4C524243, 'LRBC' */
#define LUCKY_OFFSET_VERSION 4 /* uint32_t: 1; written last, with release order: the segment is ready */
#define LUCKY_OFFSET_SERVER_PID 8 /* uint32_t: engine process */
#define LUCKY_OFFSET_CLIENT_PID 12 /* uint32_t: client process, 0 when none is attached */
#define LUCKY_OFFSET_MODE 16 /* uint8_t: 0 training (lock-step, all envs alike), 1 inference (free-running) */
#define LUCKY_OFFSET_NUM_ENVS 20 /* uint32_t: envs stepped together */
#define LUCKY_OFFSET_OBS_SIZE 24 /* uint32_t: observation elements per env */
#define LUCKY_OFFSET_ACT_SIZE 28 /* uint32_t: action elements per env */
#define LUCKY_OFFSET_FRAME_SEQ 128 /* uint64_t: frames written; the engine adds 1 after the whole frame */
#define LUCKY_OFFSET_FRAME_STATUS 136 /* uint32_t: 0 = a frame; else the wire code of the error in the error region (Feature.STATUS) */
#define LUCKY_OFFSET_ACTION_SEQ 256 /* uint64_t: actions written; the client adds 1 after all actions */
#define LUCKY_OFFSET_OBS_OFFSET 384 /* uint64_t: observations [num_envs, obs_size] */
#define LUCKY_OFFSET_ACT_OFFSET 392 /* uint64_t: actions [num_envs, act_size] */
#define LUCKY_OFFSET_REWARDS_OFFSET 400 /* uint64_t: rewards f32 [num_envs] */
#define LUCKY_OFFSET_DONES_OFFSET 408 /* uint64_t: terminated u8 [num_envs] */
#define LUCKY_OFFSET_RESETS_OFFSET 416 /* uint64_t: control u8 [num_envs]: 0 step, bit 0 reset, bit 1 hold */
#define LUCKY_OFFSET_CMD_S2C_OFFSET 424 /* uint64_t: command ring, engine to client */
#define LUCKY_OFFSET_CMD_C2S_OFFSET 432 /* uint64_t: command ring, client to engine */
#define LUCKY_OFFSET_CMD_RING_SIZE 440 /* uint32_t: data bytes of each ring, a power of two (a 256-byte head comes before them) */
#define LUCKY_OFFSET_IMAGE_OFFSET 448 /* uint64_t: images u8 [num_envs, height, width, channels], 0 when there are none */
#define LUCKY_OFFSET_IMAGE_WIDTH 456 /* uint32_t: pixels */
#define LUCKY_OFFSET_IMAGE_HEIGHT 460 /* uint32_t: pixels */
#define LUCKY_OFFSET_IMAGE_CHANNELS 464 /* uint32_t: bytes per pixel */
#define LUCKY_OFFSET_GPU_AVAILABLE 468 /* uint8_t: 1 when GPU buffers are exported */
#define LUCKY_OFFSET_GPU_OBS_MODE 469 /* uint8_t: 0 CPU, 1 CUDA IPC, 2 Vulkan external memory */
#define LUCKY_OFFSET_GPU_OBS_HANDLE 470 /* uint8_t[64]: cudaIpcMemHandle_t */
#define LUCKY_OFFSET_GPU_DEVICE_ID 536 /* uint32_t: CUDA device ordinal */
#define LUCKY_OFFSET_EXT_SIZE 1024 /* uint32_t: bytes of this block; a reader uses no field beyond it */
#define LUCKY_OFFSET_ENGINE_FEATURES 1028 /* uint32_t: Feature bits the engine understands */
#define LUCKY_OFFSET_CLIENT_FEATURES 1032 /* uint32_t: Feature bits the client understands; 0 for one that knows only the seed */
#define LUCKY_OFFSET_ENGINE_STATE 1036 /* uint32_t: 0 loading, 1 ready, 2 closing */
#define LUCKY_OFFSET_SERVER_START 1040 /* uint64_t: engine's start time in clock ticks since boot (guards against a reused pid) */
#define LUCKY_OFFSET_CLIENT_START 1048 /* uint64_t: client's start time; set before its features, cleared before its pid */
#define LUCKY_OFFSET_TOTAL_SIZE 1056 /* uint64_t: bytes of the whole segment, without its arenas */
#define LUCKY_OFFSET_TRUNCATED_OFFSET 1064 /* uint64_t: truncated u8 [num_envs] */
#define LUCKY_OFFSET_SIGNALS_OFFSET 1072 /* uint64_t: signals f32 [num_terms, num_envs]: reward terms, then termination terms */
#define LUCKY_OFFSET_NUM_TERMS 1080 /* uint32_t: rows of the signals region */
#define LUCKY_OFFSET_OBS_DTYPE 1084 /* uint32_t: element type of observations: index into the dtype list, 0 = f32 */
#define LUCKY_OFFSET_ACT_DTYPE 1088 /* uint32_t: element type of actions, by the same codes */
#define LUCKY_OFFSET_OBS_SLOTS 1092 /* uint32_t: observation slots, one behind the other; frame n goes to slot n modulo this (SLOTS) */
#define LUCKY_OFFSET_SPEC_OFFSET 1096 /* uint64_t: the batch spec, UTF-8 JSON */
#define LUCKY_OFFSET_SPEC_SIZE 1104 /* uint32_t: bytes of the spec */
#define LUCKY_OFFSET_ERROR_SIZE 1108 /* uint32_t: bytes of the error region */
#define LUCKY_OFFSET_ERROR_OFFSET 1112 /* uint64_t: u32 wire code, u32 length, UTF-8 text: why the last exchange has no frame */
#define LUCKY_OFFSET_SCHEMA_HASH 1120 /* uint64_t: first 8 bytes of the spec's SHA-256 */
#define LUCKY_OFFSET_HEARTBEAT 1152 /* uint64_t: engine adds 1 whenever it looks at the segment: tells hung from idle */
#define LUCKY_OFFSET_PARK_ENGINE 1280 /* uint32_t: 0 awake, 1 parked: the engine waits for actions or commands */
#define LUCKY_OFFSET_PEER_CPU_ENGINE 1284 /* uint32_t: the CPU on which the client published last, plus 1: a hint; 0: not said */
#define LUCKY_OFFSET_PARK_FRAME 1408 /* uint32_t: the client waits for a frame */
#define LUCKY_OFFSET_PEER_CPU_FRAME 1412 /* uint32_t: the CPU on which the engine published a frame last, plus 1 */
#define LUCKY_OFFSET_PARK_COMMAND 1536 /* uint32_t: the client waits for a command's answer */
#define LUCKY_OFFSET_PEER_CPU_COMMAND 1540 /* uint32_t: the CPU on which the engine wrote to the client's ring last, plus 1 */
#define LUCKY_OFFSET_SERVER_LOCK 1664 /* uint64_t: byte of the lock file that the engine alone holds for as long as it lives; 0: byte 0 */
#define LUCKY_OFFSET_CLIENT_LOCK 1672 /* uint64_t: the client's; set before its features, 0 for a client that is known by its pid only */
#define LUCKY_OFFSET_SERVER_PID_NAMESPACE 1680 /* uint64_t: pid namespace (inode) that server_pid and server_start are of; 0: not known */
#define LUCKY_OFFSET_CLIENT_PID_NAMESPACE 1688 /* uint64_t: the client's; set before its features */
#define LUCKY_OFFSET_GPU_OBS_SIZE 1696 /* uint64_t: bytes of the observations on the GPU; 0: not said, as many as here */
#define LUCKY_OFFSET_GPU_OBS_OFFSET 1704 /* uint64_t: bytes from the begin of the allocation that gpu_obs_handle opens */
#define LUCKY_OFFSET_GPU_OBS_GENERATION 1712 /* uint32_t: another for each handle; odd while it is changed; 0: there is only one */
#define LUCKY_OFFSET_GPU_CLIENT_GENERATION 1716 /* uint32_t: that of the handle the client has open, with bit 0 set; 0: none */
#define LUCKY_OFFSET_GPU_DEVICE_UUID 1720 /* uint8_t[16]: of the device, the same in every process; zeros: by gpu_device_id */
#define LUCKY_OFFSET_ARENA_OFFSET 1736 /* uint64_t: long messages, client to engine; the engine's own lie right behind (ARENAS) */
#define LUCKY_OFFSET_ARENA_SIZE 1744 /* uint64_t: bytes of each arena */
#define LUCKY_OFFSET_CLIENT_OBSERVATIONS 1752 /* uint32_t: where the client reads them: 0 here, 1 on the GPU alone (DEVICE_ONLY) */
#define LUCKY_OFFSET_ENVS_OFFSET 1760 /* uint64_t: words of envs that are stepped on their own, and their control bytes (ENVS) */
#define LUCKY_OFFSET_GPU_ACT_AVAILABLE 1768 /* uint32_t: 1 when there is memory for actions on the GPU */
#define LUCKY_OFFSET_GPU_ACT_MODE 1772 /* uint32_t: as gpu_obs_mode */
#define LUCKY_OFFSET_GPU_ACT_DEVICE_ID 1776 /* uint32_t: CUDA device ordinal */
#define LUCKY_OFFSET_GPU_ACT_HANDLE 1780 /* uint8_t[64]: cudaIpcMemHandle_t */
#define LUCKY_OFFSET_GPU_ACT_DEVICE_UUID 1844 /* uint8_t[16]: of the device; zeros: by gpu_act_device_id */
#define LUCKY_OFFSET_GPU_ACT_SIZE 1864 /* uint64_t: bytes of the actions on the GPU */
#define LUCKY_OFFSET_GPU_ACT_OFFSET 1872 /* uint64_t: bytes from the begin of the allocation that gpu_act_handle opens */
#define LUCKY_OFFSET_GPU_ACT_GENERATION 1880 /* uint32_t: as gpu_obs_generation; 0: there is none */
#define LUCKY_OFFSET_GPU_ACT_CLIENT_GENERATION 1884 /* uint32_t: of the handle the client has open, with bit 0 set; 0: none */
#define LUCKY_OFFSET_GPU_ACT_SEQ 1888 /* uint64_t: the action_seq whose actions lie on the GPU; those of others lie here */
#define LUCKY_OFFSET_GPU_EVENTS_GENERATION 1896 /* uint32_t: of the two events, as gpu_obs_generation; 0: there are none */
#define LUCKY_OFFSET_GPU_EVENTS_DEVICE_ID 1900 /* uint32_t: CUDA device ordinal */
#define LUCKY_OFFSET_GPU_EVENTS_DEVICE_UUID 1904 /* uint8_t[16]: of the device */
#define LUCKY_OFFSET_GPU_FRAME_EVENT 1920 /* uint8_t[64]: cudaIpcEventHandle_t: the engine's work of a step is done; zeros: no events */
#define LUCKY_OFFSET_GPU_CLIENT_EVENT 1984 /* uint8_t[64]: the client's work of a step is done */

#endif
