/* The engine `pendulum` of lucky_transport/engines/pendulum.py, bit for bit: a batch of pendulums that a motor swings up.
 *
 * Compile with -ffp-contract=off, else the compiler may fuse a multiplication and an addition into one rounding. Everything
 * of one env lies at the same place of plain arrays, and without branches, so that -O3 steps several envs at once.
 */
#ifndef PENDULUM_H
#define PENDULUM_H

#include "lucky_engine.h"

#define PENDULUM_PI 3.1415927f
#define PENDULUM_HALF_PI 1.5707964f
#define PENDULUM_TWO_PI 6.2831855f
#define PENDULUM_MAX_TORQUE 2.0f
#define PENDULUM_MAX_VELOCITY 8.0f
#define PENDULUM_TICK_S 0.05f
#define PENDULUM_PIXELS 64
#define PENDULUM_CHANNELS 4
#define PENDULUM_CAMERA "front"
#define PENDULUM_HZ 30.0

typedef struct {
    uint32_t num_envs;
    int32_t max_ticks;
    float *angles, *velocities;
    int32_t *ticks;
    uint64_t *seeds, *episodes;
} pendulum;

static inline void pendulum_free(pendulum *p) {
    free(p->angles);
    free(p->velocities);
    free(p->ticks);
    free(p->seeds);
    free(p->episodes);
}

/* -1 without memory. Env i has the seed i until it is given another one. */
static inline int pendulum_init(pendulum *p, uint32_t num_envs, int32_t max_ticks) {
    p->num_envs = num_envs;
    p->max_ticks = max_ticks;
    p->angles = (float *)calloc(num_envs, sizeof *p->angles);
    p->velocities = (float *)calloc(num_envs, sizeof *p->velocities);
    p->ticks = (int32_t *)calloc(num_envs, sizeof *p->ticks);
    p->seeds = (uint64_t *)calloc(num_envs, sizeof *p->seeds);
    p->episodes = (uint64_t *)calloc(num_envs, sizeof *p->episodes);
    if (!p->angles || !p->velocities || !p->ticks || !p->seeds || !p->episodes) {
        pendulum_free(p);
        return -1;
    }
    for (uint32_t env = 0; env < num_envs; env++) p->seeds[env] = env;
    return 0;
}

/* ---- dynamics ---------------------------------------------------------------------------------------------------- */

/* The sine of an angle in [-pi, pi], by its Taylor series; the same bits on every machine. */
static inline float pendulum_sine(float x) {
    float over = PENDULUM_PI - x, under = -PENDULUM_PI - x;
    float folded = x > PENDULUM_HALF_PI ? over : x < -PENDULUM_HALF_PI ? under : x;
    float square = folded * folded, series = square * (1.0f / -39916800.0f);
    series = (series + 1.0f / 362880.0f) * square;
    series = (series + 1.0f / -5040.0f) * square;
    series = (series + 1.0f / 120.0f) * square;
    series = (series + 1.0f / -6.0f) * square;
    return folded * (series + 1.0f);
}

static inline float pendulum_clip(float value, float limit) {
    value = value < -limit ? -limit : value;
    return value > limit ? limit : value;
}

static inline void pendulum_observe(const pendulum *p, size_t first, size_t last, float *__restrict observations) {
    const float *__restrict angles = p->angles, *__restrict velocities = p->velocities;
    for (size_t env = first; env < last; env++) {
        float angle = angles[env];
        observations[3 * env] = pendulum_sine(PENDULUM_HALF_PI - fabsf(angle));
        observations[3 * env + 1] = pendulum_sine(angle);
        observations[3 * env + 2] = velocities[env];
    }
}

/* One tick of `count` envs: what it earns, then the motion. */
static inline void pendulum_move(size_t count, const float *__restrict actions, float *__restrict angles,
                                 float *__restrict velocities, float *__restrict by_angle, float *__restrict by_velocity,
                                 float *__restrict by_effort) {
    for (size_t env = 0; env < count; env++) {
        float angle = angles[env], velocity = velocities[env], torque = pendulum_clip(actions[env], PENDULUM_MAX_TORQUE);
        by_angle[env] = -(angle * angle);
        by_velocity[env] = -(0.1f * (velocity * velocity));
        by_effort[env] = -(0.001f * (torque * torque));
        velocity += (15.0f * pendulum_sine(angle) + 3.0f * torque) * PENDULUM_TICK_S;
        velocity = pendulum_clip(velocity, PENDULUM_MAX_VELOCITY);
        angle += velocity * PENDULUM_TICK_S;
        angle -= (angle > PENDULUM_PI ? PENDULUM_TWO_PI : 0.0f) - (angle < -PENDULUM_PI ? PENDULUM_TWO_PI : 0.0f);
        angles[env] = angle;
        velocities[env] = velocity;
    }
}

static inline void pendulum_count(size_t count, int32_t max_ticks, int32_t *__restrict ticks, float *__restrict time_out,
                                  uint8_t *__restrict truncated) {
    for (size_t env = 0; env < count; env++) {
        int32_t ended = ++ticks[env] >= max_ticks;
        time_out[env] = (float)ended;
        truncated[env] = (uint8_t)ended;
    }
}

/* Advance the envs from `first` up to `last`. */
static inline void pendulum_advance(pendulum *p, const lucky_step *s, size_t first, size_t last) {
    size_t n = s->num_envs, count = last - first;
    float *signals = s->signals + first;
    pendulum_move(count, (const float *)s->actions + first, p->angles + first, p->velocities + first, signals, signals + n,
                  signals + 2 * n);
    pendulum_count(count, p->max_ticks, p->ticks + first, signals + 3 * n, s->truncated + first);
    pendulum_observe(p, first, last, (float *)s->observations);
}

static inline uint64_t pendulum_splitmix64(uint64_t value) {
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

/* A number in [-1, 1): the upper 24 bits of a function of the key. */
static inline float pendulum_uniform(uint64_t key) { return (float)(pendulum_splitmix64(key) >> 40) / 8388608.0f - 1.0f; }

static inline void pendulum_begin(pendulum *p, uint32_t env) {
    uint64_t key = pendulum_splitmix64(p->seeds[env] + pendulum_splitmix64(p->episodes[env]++));
    p->angles[env] = PENDULUM_PI * pendulum_uniform(key);
    p->velocities[env] = pendulum_uniform(key + 1);
    p->ticks[env] = 0;
}

/* Envs that advance come in runs, since single ones are slow. */
static inline int pendulum_step(void *user, const lucky_step *s, lucky_error *error) {
    pendulum *p = (pendulum *)user;
    (void)error;
    for (uint32_t env = 0, end; env < s->num_envs; env = end) {
        end = env + 1;
        if (lucky_is_reset(s, env)) {
            pendulum_begin(p, env);
            pendulum_observe(p, env, end, (float *)s->observations);
        } else if (!lucky_is_held(s, env)) {
            while (end < s->num_envs && !lucky_is_reset(s, end) && !lucky_is_held(s, end)) end++;
            pendulum_advance(p, s, env, end);
        }
    }
    return 0;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static inline lucky_ref pendulum_text(lucky_call *call, const char *text) {
    return lucky_string(call->out, text, (uint32_t)strlen(text));
}

static inline lucky_ref pendulum_set_seeds(void *user, lucky_call *call) {
    pendulum *p = (pendulum *)user;
    char problem[80] = "";
    lucky_ref message = 0;
    lucky_span seeds = lucky_get_vector(&call->request, LUCKY_SetSeedsRequest_seeds, 8);
    lucky_span mask = lucky_get_vector(&call->request, LUCKY_SetSeedsRequest_mask, 1);
    if (lucky_is_malformed(call)) return 0;
    if (seeds.size != p->num_envs) snprintf(problem, sizeof problem, "%u seeds for %u envs: expected one per env", seeds.size, p->num_envs);
    else if (mask.size && mask.size != p->num_envs)
        snprintf(problem, sizeof problem, "mask of %u bytes for %u envs: expected one per env", mask.size, p->num_envs);
    for (uint32_t env = 0; !*problem && env < p->num_envs; env++) {
        if (mask.size && !mask.data[env]) continue;
        p->seeds[env] = lucky_span_u64(seeds, env);
        p->episodes[env] = 0;
    }
    if (*problem) message = pendulum_text(call, problem);
    lucky_begin(call->out);
    if (message) lucky_add_ref(call->out, LUCKY_SetSeedsResponse_message, message);
    else lucky_add_bool(call->out, LUCKY_SetSeedsResponse_success, 1);
    return lucky_end(call->out);
}

static inline lucky_ref pendulum_no_robot(lucky_builder *out, lucky_span name) {
    static const char before[] = "no robot '";
    uint32_t length = (uint32_t)sizeof before - 1 + name.size + 1;
    char *text = (char *)malloc(length);
    if (!text) return 0;
    memcpy(text, before, sizeof before - 1);
    memcpy(text + sizeof before - 1, name.data, name.size);
    text[length - 1] = '\'';
    lucky_ref message = lucky_string(out, text, length);
    free(text);
    return message;
}

static inline lucky_ref pendulum_joint_state(void *user, lucky_call *call) {
    const pendulum *p = (const pendulum *)user;
    lucky_span name = lucky_get_string(&call->request, LUCKY_GetJointStateRequest_robot_name);
    int64_t env = lucky_env_of(name, p->num_envs);
    lucky_builder *out = call->out;
    if (lucky_is_malformed(call)) return 0;
    if (env < 0) {
        lucky_ref message = pendulum_no_robot(out, name);
        call->is_last = 1;
        lucky_begin(out);
        if (message) lucky_add_ref(out, LUCKY_GetJointStateResponse_message, message);
        return lucky_end(out);
    }
    lucky_ref positions = lucky_vector(out, &p->angles[env], 1, 4);
    lucky_ref velocities = lucky_vector(out, &p->velocities[env], 1, 4);
    lucky_begin(out);
    lucky_add_ref(out, LUCKY_JointState_positions, positions);
    lucky_add_ref(out, LUCKY_JointState_velocities, velocities);
    lucky_add_i32(out, LUCKY_JointState_nq, 1);
    lucky_add_i32(out, LUCKY_JointState_nv, 1);
    lucky_ref state = lucky_end(out);
    lucky_begin(out);
    lucky_add_bool(out, LUCKY_GetJointStateResponse_success, 1);
    lucky_add_ref(out, LUCKY_GetJointStateResponse_state, state);
    return lucky_end(out);
}

static inline lucky_ref pendulum_list_cameras(void *user, lucky_call *call) {
    lucky_ref name = pendulum_text(call, PENDULUM_CAMERA);
    (void)user;
    lucky_begin(call->out);
    lucky_add_ref(call->out, LUCKY_CameraInfo_name, name);
    lucky_ref camera = lucky_end(call->out);
    lucky_ref cameras = lucky_ref_vector(call->out, &camera, 1);
    lucky_begin(call->out);
    lucky_add_ref(call->out, LUCKY_ListCamerasResponse_cameras, cameras);
    return lucky_end(call->out);
}

/* The env that a camera shows: "" and "front" env 0, "agent_3/front" env 3; -1 when there is no such camera. */
static inline int64_t pendulum_camera_env(const pendulum *p, lucky_span name) {
    uint32_t camera = name.size;
    while (camera && name.data[camera - 1] != '/') camera--;
    lucky_span agent = {name.data, camera ? camera - 1 : 0};
    uint32_t length = name.size - camera;
    if (length && (length != strlen(PENDULUM_CAMERA) || memcmp(name.data + camera, PENDULUM_CAMERA, length))) return -1;
    return lucky_env_of(agent, p->num_envs);
}

/* One pendulum: grey, with a white square at its end. */
static inline lucky_ref pendulum_camera(void *user, lucky_call *call) {
    const pendulum *p = (const pendulum *)user;
    uint8_t pixels[PENDULUM_PIXELS][PENDULUM_PIXELS][PENDULUM_CHANNELS];
    lucky_span name = lucky_get_string(&call->request, LUCKY_StreamCameraRequest_name);
    uint32_t fps = lucky_get_u32(&call->request, LUCKY_StreamCameraRequest_target_fps, 0);
    if (lucky_is_malformed(call)) return 0;
    int64_t env = pendulum_camera_env(p, name);
    if (env < 0) {
        lucky_fail(&call->error, LUCKY_ERROR_UnknownName, "no camera '%.*s'; there are agent_0/%s to agent_%u/%s", (int)name.size,
                   name.data, PENDULUM_CAMERA, p->num_envs - 1, PENDULUM_CAMERA);
        return 0;
    }
    float angle = p->angles[env], middle = PENDULUM_PIXELS / 2;
    int column = (int)(middle - 24.0f * pendulum_sine(angle));
    int row = (int)(middle - 24.0f * pendulum_sine(PENDULUM_HALF_PI - fabsf(angle)));
    struct timespec now;
    if (fps) call->hz = fps;
    memset(pixels, 128, sizeof pixels);
    for (int y = row - 2; y < row + 2; y++) memset(pixels[y][column - 2], 255, 4 * PENDULUM_CHANNELS);
    clock_gettime(CLOCK_REALTIME, &now);
    lucky_ref data = lucky_image_data(call, pixels, sizeof pixels), format = pendulum_text(call, "raw");
    lucky_begin(call->out);
    if (data) lucky_add_ref(call->out, LUCKY_ImageFrame_data, data);
    lucky_add_u32(call->out, LUCKY_ImageFrame_width, PENDULUM_PIXELS);
    lucky_add_u32(call->out, LUCKY_ImageFrame_height, PENDULUM_PIXELS);
    lucky_add_u32(call->out, LUCKY_ImageFrame_channels, PENDULUM_CHANNELS);
    lucky_add_ref(call->out, LUCKY_ImageFrame_format, format);
    lucky_add_u64(call->out, LUCKY_ImageFrame_timestamp_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    lucky_add_u32(call->out, LUCKY_ImageFrame_frame_number, (uint32_t)call->tick);
    return lucky_end(call->out);
}

static const lucky_handler PENDULUM_HANDLERS[] = {
    {LUCKY_METHOD_BatchService_SetSeeds, 0, 0, pendulum_set_seeds},
    {LUCKY_METHOD_MujocoService_GetJointState, 0, 0, pendulum_joint_state},
    {LUCKY_METHOD_MujocoService_StreamJointState, 1, PENDULUM_HZ, pendulum_joint_state},
    {LUCKY_METHOD_CameraService_ListCameras, 0, 0, pendulum_list_cameras},
    {LUCKY_METHOD_CameraService_StreamCamera, 1, PENDULUM_HZ, pendulum_camera},
};
#define PENDULUM_NUM_HANDLERS ((uint32_t)(sizeof PENDULUM_HANDLERS / sizeof *PENDULUM_HANDLERS))

#endif
