/* pendulum [NAME [ENVS [MAX_TICKS]]] [--envs N]: serves shm://NAME until SIGINT or SIGTERM.
 *
 * The dynamics and the answers are those of the C kit's example, which is bit for bit the engine `pendulum` of Python.
 */
#include "lucky_engine.hpp"

#include "../../c/examples/pendulum.h"

#include <iostream>

class Pendulum : public lucky::Engine {
public:
    Pendulum(std::uint32_t num_envs, std::int32_t max_ticks) : Engine(spec_of(num_envs, max_ticks)) {
        if (pendulum_init(&world_, num_envs, max_ticks)) throw std::bad_alloc();
        handle(LUCKY_METHOD_BatchService_SetSeeds, [this](lucky_call &call) { return pendulum_set_seeds(&world_, &call); });
        handle(LUCKY_METHOD_MujocoService_GetJointState, [this](lucky_call &call) { return pendulum_joint_state(&world_, &call); });
        stream(LUCKY_METHOD_MujocoService_StreamJointState, PENDULUM_HZ,
               [this](lucky_call &call) { return pendulum_joint_state(&world_, &call); });
        handle(LUCKY_METHOD_CameraService_ListCameras, [this](lucky_call &call) { return pendulum_list_cameras(&world_, &call); });
        stream(LUCKY_METHOD_CameraService_StreamCamera, PENDULUM_HZ,
               [this](lucky_call &call) { return pendulum_camera(&world_, &call); });
    }
    ~Pendulum() override { pendulum_free(&world_); }

    void step(lucky::Step &step) override {
        lucky_error error;
        pendulum_step(&world_, &step.raw(), &error);
    }

private:
    static lucky::Spec spec_of(std::uint32_t num_envs, std::int32_t max_ticks) {
        if (num_envs < 1 || max_ticks < 1) throw lucky::Error(LUCKY_ERROR_SpecError, "expected at least 1 env and 1 tick");
        lucky::Spec spec;
        spec.engine = "pendulum";
        spec.num_envs = num_envs;
        spec.observation.shape = {3};
        spec.observation.low = {-1, -1, -8};
        spec.observation.high = {1, 1, 8};
        spec.action.shape = {1};
        spec.action.low = {-2};
        spec.action.high = {2};
        spec.reward_terms = {"angle", "velocity", "effort"};
        spec.termination_terms = spec.timeout_terms = {"time_out"};
        spec.observation_names = {"cos", "sin", "velocity"};
        spec.action_names = {"torque"};
        spec.step_s = 0.05;
        spec.attributes = {{"max_episode_steps", max_ticks}};
        return spec;
    }

    pendulum world_{};
};

int main(int count, char **arguments) {
    std::vector<std::string> words(arguments + 1, arguments + count);
    std::string envs;
    for (std::size_t i = 0; i + 1 < words.size(); i++) {
        if (words[i] != "--envs") continue;
        envs = words[i + 1];
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
        break;
    }
    try {
        std::string name = words.empty() ? "pendulum" : words[0];
        if (envs.empty()) envs = words.size() > 1 ? words[1] : "4";
        auto num_envs = static_cast<std::uint32_t>(std::stoul(envs));
        Pendulum pendulums(num_envs, words.size() > 2 ? std::stoi(words[2]) : 200);
        lucky::Server server(name, pendulums);
        server.handle_signals();
        std::cout << "serving " << num_envs << " pendulums at shm://" << name << std::endl;
        server.run();
        return 0;
    } catch (const lucky::Error &error) {
        std::cerr << "pendulum: " << error.name() << ": " << error.what() << std::endl;
    } catch (const std::exception &error) {
        std::cerr << "pendulum: " << error.what() << std::endl;
    }
    return 1;
}
