/* careless NAME serves an engine of two envs at shm://NAME that writes a row of signals only where an action is 1, and fails
 * by lower ones. careless refused: prints why each contradictory engine is refused. */
#include "lucky_engine.hpp"

#include <iostream>

class Careless : public lucky::Engine {
public:
    explicit Careless(lucky::Spec spec, bool is_twice = false) : Engine(std::move(spec)) {
        handle(LUCKY_METHOD_MujocoService_GetJointState, out_of_joint);
        stream(LUCKY_METHOD_MujocoService_StreamJointState, 0, [](lucky_call &call) {
            if (call.tick) throw std::runtime_error("out of items");
            lucky_begin(call.out);
            lucky_add_bool(call.out, LUCKY_GetJointStateResponse_success, 1);
            return lucky_end(call.out);
        });
        if (is_twice) handle(LUCKY_METHOD_MujocoService_GetJointState, out_of_joint);
    }

    void step(lucky::Step &step) override {
        for (std::size_t env = 0; env < step.num_envs(); env++) {
            if (step.is_held(env) || step.is_reset(env)) continue;
            float action = step.actions()(env, 0);
            if (action == 1) {
                step.signals()(0, env) = 10;
                step.signals()(3, env) = 1;
                step.terminated()(0, env) = step.truncated()(0, env) = 1;
            }
            if (action == -1) throw std::runtime_error("too slow");
            if (action == -2) step.signals()(4, env) = 1;
            if (action == -3) step.observations()(env, 1) = 1;
            if (action == -4) step.truncated()(0, 2) = 1;
            if (action == -5) step.is_held(7);
        }
    }

    static lucky::Spec plain() {
        lucky::Spec spec;
        spec.engine = "careless";
        spec.num_envs = 2;
        spec.observation.shape = spec.action.shape = {1};
        spec.reward_terms = {"goal", "effort"};
        spec.termination_terms = {"hit", "late"};
        spec.timeout_terms = {"late"};
        return spec;
    }

private:
    static lucky_ref out_of_joint(lucky_call &call) {
        lucky_span robot = lucky_get_string(&call.request, LUCKY_GetJointStateRequest_robot_name);
        if (robot.size) throw lucky::Error(LUCKY_ERROR_UnknownSession, "no such session");
        throw std::runtime_error("out of joint");
    }
};

static void refuse(const lucky::Spec &spec, bool is_twice = false) {
    try {
        Careless engine(spec, is_twice);
        lucky::Server server("lucky_refused", engine);
        std::cout << "taken" << std::endl;
    } catch (const lucky::Error &error) {
        std::cout << error.name() << ": " << error.what() << std::endl;
    }
}

static int refused() {
    lucky::Spec spec = Careless::plain();
    spec.timeout_terms = {"nope"};
    refuse(spec);
    spec = Careless::plain();
    spec.reward_terms = {"goal", "effort", "goal"};
    refuse(spec);
    spec = Careless::plain();
    spec.termination_terms = {"late", "late"};
    refuse(spec);
    spec = Careless::plain();
    spec.step_s = std::numeric_limits<double>::quiet_NaN();
    refuse(spec);
    spec = Careless::plain();
    spec.action.shape = {3};
    spec.action.low = {0, std::numeric_limits<double>::quiet_NaN(), 0};
    refuse(spec);
    spec.action.low = {0, 0, 2};
    spec.action.high = {1.5, 1.5, 1.5};
    refuse(spec);
    spec.action = lucky::Array();
    spec.action.discrete = 3;
    refuse(spec);
    refuse(Careless::plain(), true);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    std::string name = arguments[1];
    if (name == "refused") return refused();
    Careless engine(Careless::plain());
    lucky::Server server(name, engine);
    server.handle_signals();
    std::cout << "here" << std::endl;
    server.run();
    return 0;
}
