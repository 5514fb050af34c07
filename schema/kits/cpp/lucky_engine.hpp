/* An engine in C++17: a thin class over the headers of schema/kits/c, which do the work.
 *
 *   struct Lift : lucky::Engine { ... void step(lucky::Step &step) override; };
 *   Lift lift;
 *   lucky::Server server("lift", lift);
 *   server.handle_signals();
 *   server.run();
 */
#ifndef LUCKY_ENGINE_HPP
#define LUCKY_ENGINE_HPP

#include "lucky_engine.h"
#include "lucky_spec.hpp"

#include <cxxabi.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <typeinfo>
#include <utility>

namespace lucky {

/* Numbers in shared memory, a row after the other; an index outside throws std::out_of_range, which has `name`. */
template <class T> class Rows {
public:
    Rows(T *start, const char *name, std::size_t rows, std::size_t columns)
        : start_(start), name_(name), rows_(rows), columns_(columns) {}
    T &operator()(std::size_t row, std::size_t column) const {
        if (row >= rows_ || column >= columns_) outside(row, column);
        return start_[row * columns_ + column];
    }
    T *data() const { return start_; } /* for loops that check by themselves */
    std::size_t rows() const { return rows_; }
    std::size_t columns() const { return columns_; }

private:
    [[noreturn]] void outside(std::size_t row, std::size_t column) const {
        throw std::out_of_range(std::string(name_) + "()(" + std::to_string(row) + ", " + std::to_string(column) + "): there are " +
                                std::to_string(rows_) + " rows of " + std::to_string(columns_) + ", counted from 0");
    }
    T *start_;
    const char *name_;
    std::size_t rows_, columns_;
};

/* One exchange; valid during the call. */
class Step {
public:
    Step(const lucky_step &step, const Spec &spec) : step_(step), spec_(spec) {}
    std::size_t num_envs() const { return step_.num_envs; }

    /* [env, element]; T is the element type of the spec, else std::logic_error. */
    template <class T = float> Rows<const T> actions() const {
        check<T>(spec_.action);
        return {static_cast<const T *>(step_.actions), "actions", num_envs(), spec_.action.size()};
    }
    template <class T = float> Rows<T> observations() const {
        check<T>(spec_.observation);
        return {static_cast<T *>(step_.observations), "observations", num_envs(), spec_.observation.size()};
    }
    /* [term, env]: the reward terms, then the termination terms. Signals and flags are 0 when a step begins, but for held envs. */
    Rows<float> signals() const {
        return {step_.signals, "signals", spec_.reward_terms.size() + spec_.termination_terms.size(), num_envs()};
    }
    /* [0, env] */
    Rows<std::uint8_t> terminated() const { return {step_.terminated, "terminated", 1, num_envs()}; }
    Rows<std::uint8_t> truncated() const { return {step_.truncated, "truncated", 1, num_envs()}; }

    bool is_reset(std::size_t env) const { return lucky_is_reset(&step_, checked(env)); }
    bool is_held(std::size_t env) const { return lucky_is_held(&step_, checked(env)); }
    bool is_tick(std::size_t env) const { return lucky_is_tick(&step_, checked(env)); }
    const lucky_step &raw() const { return step_; }

private:
    template <class T> static void check(const Array &array) {
        if (array.dtype != dtype_of<T>()) throw std::logic_error("the elements are " + std::string(LUCKY_DTYPES[array.dtype]));
    }
    std::uint32_t checked(std::size_t env) const {
        if (env >= num_envs())
            throw std::out_of_range("env " + std::to_string(env) + ": there are " + std::to_string(num_envs()) + ", counted from 0");
        return static_cast<std::uint32_t>(env);
    }
    const lucky_step &step_;
    const Spec &spec_;
};

/* A batch of envs that step together: what a simulator implements. All of it runs on the thread of Server::run. */
class Engine {
public:
    explicit Engine(Spec spec) : spec_(std::move(spec)) {}
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;
    virtual ~Engine() = default;

    const Spec &spec() const { return spec_; }

    /* For each env: reset it if step.is_reset(env), leave it and its rows alone if step.is_held(env), else advance it. An
     * exception is written to standard error, and the client's step raises it: a lucky::Error as itself, others as EngineFailed.
     * Envs before the failing one have advanced then, so a VectorEnv raises NeedsReset until its reset; the engine gets that
     * reset as usual. */
    virtual void step(Step &step) = 0;

    /* Write the answer into call.out and return its root; README.md of schema/kits/c has the rules. */
    using Answer = std::function<lucky_ref(lucky_call &call)>;

protected:
    /* Answer a method, LUCKY_METHOD_...; in the constructor. Throws Error (ConfigError) for a method that has a handler. */
    void handle(std::uint32_t method, Answer answer) { add(method, 0, 0, std::move(answer)); }

    /* Answer a stream, with `hz` items per second at most; 0: whenever the client can take one. */
    void stream(std::uint32_t method, double hz, Answer answer) { add(method, 1, hz, std::move(answer)); }

private:
    friend class Server;

    void add(std::uint32_t method, int is_stream, double hz, Answer answer) {
        if (answers_.count(method))
            throw Error(LUCKY_ERROR_ConfigError, std::string(lucky_method_path(method)) + " has a handler already; register one for each method");
        answers_[method] = std::move(answer);
        handlers_.push_back({method, is_stream, hz, &Engine::on_call});
    }

    /* Nothing thrown may pass through C. */
    template <class Body> bool guard(const char *what, lucky_error &error, Body body) const noexcept {
        try {
            body();
            return true;
        } catch (const Error &e) {
            lucky_fail(&error, e.code(), "%s", e.what());
        } catch (const std::exception &e) {
            int status = 0;
            char *name = abi::__cxa_demangle(typeid(e).name(), nullptr, nullptr, &status);
            failed(what, error, name ? name : typeid(e).name(), e.what());
            std::free(name);
        } catch (...) {
            failed(what, error, "an exception", "it is no std::exception");
        }
        return false;
    }

    void failed(const char *what, lucky_error &error, const char *type, const char *text) const noexcept {
        lucky_fail(&error, LUCKY_ERROR_EngineFailed, "engine '%.100s' failed in %s: %s: %s", spec_.engine.c_str(), what, type, text);
    }

    static int on_step(void *user, const lucky_step *raw, lucky_error *error) {
        Engine &self = *static_cast<Engine *>(user);
        return self.guard("step", *error, [&] {
            Step step(*raw, self.spec_);
            self.step(step);
        }) ? 0 : -1;
    }

    static lucky_ref on_call(void *user, lucky_call *call) {
        Engine &self = *static_cast<Engine *>(user);
        lucky_ref root = 0;
        const char *what = lucky_method_path(call->handler->method);
        return self.guard(what, call->error, [&] { root = self.answers_.at(call->handler->method)(*call); }) ? root : 0;
    }

    Spec spec_;
    std::map<std::uint32_t, Answer> answers_;
    std::vector<lucky_handler> handlers_;
};

/* Serves an engine at shm://name. The engine must live as long as it. */
class Server {
public:
    /* Makes the segment; a dead engine's of that name is replaced. Throws Error: Busy when a living engine has it,
     * SegmentError when the name belongs to something else, NoSpace, ConfigError, SpecError. */
    Server(const std::string &name, Engine &engine, std::uint32_t ring_bytes = LUCKY_DEFAULT_RING_BYTES)
        : spec_(engine.spec_), server_(new lucky_server) {
        lucky_engine raw = {spec_.get(), &Engine::on_step, &engine, engine.handlers_.data(),
                            static_cast<std::uint32_t>(engine.handlers_.size())};
        lucky_error error;
        if (lucky_open(server_.get(), name.c_str(), &raw, ring_bytes, &error)) throw Error(error);
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    ~Server() { lucky_close(server_.get()); }

    /* SIGINT and SIGTERM end run, SIGBUS of a truncated segment ends it with SegmentError; for one server of a process. */
    void handle_signals() { lucky_handle_signals(server_.get()); }

    /* Serves until stop, then removes the segment. Throws SegmentError when another process cut its file. */
    void run() {
        lucky_error error;
        if (lucky_run(server_.get(), &error)) throw Error(error);
    }

    /* Makes run return; from any thread, while the server lives. */
    void stop() { lucky_stop(server_.get()); }

private:
    RawSpec spec_;
    std::unique_ptr<lucky_server> server_;
};

} // namespace lucky

#endif
