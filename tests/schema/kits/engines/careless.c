/* careless NAME serves an engine of two envs at shm://NAME that writes a row of signals only where an action is 1, and fails
 * by -1. careless refused: prints why each contradictory engine is refused. */
#include "lucky_engine.h"

static const char *const REWARDS[] = {"goal", "effort", NULL}, *const ENDS[] = {"hit", "late", NULL}, *const LATE[] = {"late", NULL};

static int step(void *user, const lucky_step *s, lucky_error *error) {
    const float *actions = (const float *)s->actions;
    (void)user;
    for (uint32_t env = 0; env < s->num_envs; env++) {
        if (lucky_is_held(s, env) || lucky_is_reset(s, env)) continue;
        if (actions[env] == -1) return lucky_fail(error, LUCKY_ERROR_EngineFailed, "too slow");
        if (actions[env] != 1) continue;
        s->signals[env] = 10;
        s->signals[3 * s->num_envs + env] = 1;
        s->terminated[env] = s->truncated[env] = 1;
    }
    return 0;
}

static lucky_ref out_of_joint(void *user, lucky_call *call) {
    lucky_span robot = lucky_get_string(&call->request, LUCKY_GetJointStateRequest_robot_name);
    (void)user;
    if (robot.size) lucky_fail(&call->error, LUCKY_ERROR_UnknownSession, "no such session");
    else lucky_fail(&call->error, LUCKY_ERROR_EngineFailed, "out of joint");
    return 0;
}

static const lucky_handler HANDLERS[] = {
    {LUCKY_METHOD_MujocoService_GetJointState, 0, 0, out_of_joint},
    {LUCKY_METHOD_MujocoService_GetJointState, 0, 0, out_of_joint},
};

static lucky_spec plain(void) {
    lucky_spec spec = {.engine = "careless", .num_envs = 2, .reward_terms = REWARDS, .termination_terms = ENDS, .timeout_terms = LATE};
    spec.observation.shape[0] = spec.action.shape[0] = 1;
    return spec;
}

static void refuse(const lucky_spec *spec, uint32_t handlers) {
    lucky_engine engine = {spec, step, NULL, HANDLERS, handlers};
    static lucky_server server;
    lucky_error error;
    int failed = lucky_open(&server, "lucky_refused", &engine, LUCKY_DEFAULT_RING_BYTES, &error);
    if (failed) printf("%s: %s\n", lucky_error_name(error.code), error.text);
    else puts("taken"), lucky_close(&server);
}

static int refused(void) {
    static const char *const nope[] = {"nope", NULL}, *const goals[] = {"goal", "effort", "goal", NULL}, *const lates[] = {"late", "late", NULL};
    static const double nan_low[] = {0, NAN, 0}, low[] = {0, 0, 2}, high[] = {1.5, 1.5, 1.5};
    lucky_spec spec = plain();
    spec.timeout_terms = nope;
    refuse(&spec, 0);
    spec = plain();
    spec.reward_terms = goals;
    refuse(&spec, 0);
    spec = plain();
    spec.termination_terms = lates;
    refuse(&spec, 0);
    spec = plain();
    spec.step_s = NAN;
    refuse(&spec, 0);
    spec = plain();
    spec.action = (lucky_array){.shape = {3}, .low = nan_low, .bounds = 3};
    refuse(&spec, 0);
    spec.action = (lucky_array){.shape = {3}, .low = low, .high = high, .bounds = 3};
    refuse(&spec, 0);
    spec.action = (lucky_array){.discrete = 3};
    refuse(&spec, 0);
    spec = plain();
    refuse(&spec, 2);
    return 0;
}

int main(int count, char **arguments) {
    lucky_spec spec = plain();
    lucky_engine engine = {&spec, step, NULL, HANDLERS, 1};
    static lucky_server server;
    lucky_error error;
    if (count < 2) return 2;
    if (!strcmp(arguments[1], "refused")) return refused();
    if (lucky_open(&server, arguments[1], &engine, LUCKY_DEFAULT_RING_BYTES, &error)) return 1;
    lucky_handle_signals(&server);
    puts("here");
    fflush(stdout);
    int failed = lucky_run(&server, &error);
    if (count > 2) { /* a program with more to do: signals are its own again */
        puts("ended");
        fflush(stdout);
        pause();
    }
    return failed ? 1 : 0;
}
