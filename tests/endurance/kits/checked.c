/* checked NAME: the engine of checked_engine.py by the kit in C, with small rings, so that they begin again often. */
#include "lucky_engine.h"

enum { NUM_ENVS = 16, OBS_SIZE = 64, ACT_SIZE = 2, BEAMS = 100, MANY = 15000, LARGE = 3, RING_BYTES = 65536 };
enum { WIDTH = 64, HEIGHT = 48, CHANNELS = 4, PREPARED = 4, ITEM_BYTES = 1000, ITEMS_PER_S = 1000 };

static int step(void *user, const lucky_step *s, lucky_error *error) {
    (void)user;
    (void)error;
    for (uint32_t env = 0; env < s->num_envs; env++) {
        float first = ((const float *)s->actions)[env * ACT_SIZE], *row = (float *)s->observations + env * OBS_SIZE;
        for (int i = 0; i < OBS_SIZE; i++) row[i] = first + (float)i;
        s->signals[env] = first;
        s->terminated[env] = s->truncated[env] = 0;
    }
    return 0;
}

static lucky_ref set_seeds(void *user, lucky_call *call) {
    (void)user;
    lucky_begin(call->out);
    lucky_add_bool(call->out, LUCKY_SetSeedsResponse_success, 1);
    return lucky_end(call->out);
}

static lucky_ref scene_info(void *user, lucky_call *call) {
    (void)user;
    lucky_begin(call->out);
    lucky_add_i32(call->out, LUCKY_GetSceneInfoResponse_entity_count, 1);
    return lucky_end(call->out);
}

static lucky_ref beam_angles(void *user, lucky_call *call) {
    static float shown[MANY];
    uint32_t sensor = lucky_get_u32(&call->request, LUCKY_LidarSensorRequest_sensor, 0), count = sensor <= LARGE ? MANY : BEAMS;
    (void)user;
    if (lucky_is_malformed(call)) return 0;
    for (uint32_t i = 0; i < count; i++) shown[i] = (float)(sensor % 1000 + i);
    lucky_ref azimuth = lucky_vector(call->out, shown, count, 4), elevation = lucky_vector(call->out, shown, count, 4);
    lucky_begin(call->out);
    lucky_add_i32(call->out, LUCKY_LidarBeamAnglesResponse_beams, (int32_t)sensor);
    lucky_add_ref(call->out, LUCKY_LidarBeamAnglesResponse_azimuth, azimuth);
    lucky_add_ref(call->out, LUCKY_LidarBeamAnglesResponse_elevation, elevation);
    return lucky_end(call->out);
}

static lucky_ref slot_state(void *user, lucky_call *call) {
    char text[ITEM_BYTES];
    (void)user;
    memset(text, 'x', sizeof text);
    lucky_ref name = lucky_string(call->out, text, sizeof text);
    lucky_begin(call->out);
    lucky_add_i32(call->out, LUCKY_PolicySlotSummary_slot_id, (int32_t)call->spent_items); /* of those sent: none is missing */
    lucky_add_ref(call->out, LUCKY_PolicySlotSummary_name, name);
    return lucky_end(call->out);
}

static lucky_ref camera(void *user, lucky_call *call) {
    static uint8_t pixels[WIDTH * HEIGHT * CHANNELS];
    uint32_t number = (uint32_t)call->tick + 1;
    (void)user;
    memset(pixels, (int)(10 + number % PREPARED), sizeof pixels);
    lucky_ref data = lucky_image_data(call, pixels, sizeof pixels);
    lucky_begin(call->out);
    if (data) lucky_add_ref(call->out, LUCKY_ImageFrame_data, data);
    lucky_add_u32(call->out, LUCKY_ImageFrame_width, WIDTH);
    lucky_add_u32(call->out, LUCKY_ImageFrame_height, HEIGHT);
    lucky_add_u32(call->out, LUCKY_ImageFrame_channels, CHANNELS);
    lucky_add_u32(call->out, LUCKY_ImageFrame_frame_number, number);
    return lucky_end(call->out);
}

static const lucky_handler HANDLERS[] = {
    {LUCKY_METHOD_BatchService_SetSeeds, 0, 0, set_seeds},
    {LUCKY_METHOD_SceneService_GetSceneInfo, 0, 0, scene_info},
    {LUCKY_METHOD_LidarService_GetLidarBeamAngles, 0, 0, beam_angles},
    {LUCKY_METHOD_AgentService_StreamPolicySlotState, 1, ITEMS_PER_S, slot_state},
    {LUCKY_METHOD_CameraService_StreamCamera, 1, ITEMS_PER_S, camera},
};

int main(int count, char **arguments) {
    static const char *const terms[] = {"first", NULL}, *const none[] = {NULL};
    const double low[] = {-1, -1}, high[] = {1, 1};
    const lucky_spec spec = {
        .engine = "checked",
        .num_envs = NUM_ENVS,
        .observation = {.dtype = LUCKY_DTYPE_FLOAT32, .shape = {OBS_SIZE}},
        .action = {.dtype = LUCKY_DTYPE_FLOAT32, .shape = {ACT_SIZE}, .low = low, .high = high, .bounds = ACT_SIZE},
        .reward_terms = terms,
        .termination_terms = none,
        .timeout_terms = none,
    };
    const lucky_engine engine = {&spec, step, NULL, HANDLERS, sizeof HANDLERS / sizeof *HANDLERS};
    lucky_server server;
    lucky_error error;
    int failed = count != 2 || lucky_open(&server, arguments[1], &engine, RING_BYTES, &error);
    if (!failed) {
        lucky_handle_signals(&server);
        printf("ready\n");
        fflush(stdout);
        failed = lucky_run(&server, &error);
    }
    if (failed) fprintf(stderr, "checked: %s\n", count == 2 ? error.text : "expected the name of a segment");
    return failed;
}
