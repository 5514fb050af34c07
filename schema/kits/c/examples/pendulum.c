/* pendulum NAME [ENVS [MAX_TICKS]]: serves shm://NAME until SIGINT or SIGTERM. */
#include "pendulum.h"

static const char *const TERMS[] = {"angle", "velocity", "effort", NULL}, *const TIME_OUT[] = {"time_out", NULL};
static const char *const OBSERVATIONS[] = {"cos", "sin", "velocity", NULL}, *const ACTIONS[] = {"torque", NULL};
static const double LOW[] = {-1, -1, -8}, HIGH[] = {1, 1, 8}, LEAST[] = {-2}, MOST[] = {2};

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "pendulum";
    uint32_t num_envs = count > 2 ? (uint32_t)strtoul(arguments[2], NULL, 10) : 4;
    int32_t max_ticks = count > 3 ? (int32_t)strtol(arguments[3], NULL, 10) : 200;
    const lucky_attribute attributes[] = {{"max_episode_steps", max_ticks}, {NULL, 0}};
    const lucky_spec spec = {
        .engine = "pendulum",
        .num_envs = num_envs,
        .observation = {.dtype = LUCKY_DTYPE_FLOAT32, .shape = {3}, .low = LOW, .high = HIGH, .bounds = 3},
        .action = {.dtype = LUCKY_DTYPE_FLOAT32, .shape = {1}, .low = LEAST, .high = MOST, .bounds = 1},
        .reward_terms = TERMS,
        .termination_terms = TIME_OUT,
        .timeout_terms = TIME_OUT,
        .observation_names = OBSERVATIONS,
        .action_names = ACTIONS,
        .step_s = 0.05,
        .attributes = attributes,
    };
    pendulum world;
    lucky_server server;
    lucky_error error;
    if (max_ticks < 1 || pendulum_init(&world, num_envs, max_ticks)) {
        fprintf(stderr, "pendulum: expected at least 1 tick, and memory for %u envs\n", num_envs);
        return 1;
    }
    lucky_engine engine = {&spec, pendulum_step, &world, PENDULUM_HANDLERS, PENDULUM_NUM_HANDLERS};
    int failed = lucky_open(&server, name, &engine, LUCKY_DEFAULT_RING_BYTES, &error);
    if (!failed) {
        lucky_handle_signals(&server);
        printf("serving %u pendulums at shm://%s\n", num_envs, name);
        fflush(stdout);
        failed = lucky_run(&server, &error);
    }
    pendulum_free(&world);
    if (!failed) return 0;
    fprintf(stderr, "pendulum: %s: %s\n", lucky_error_name(error.code), error.text);
    return 1;
}
