/* The sizes, types and names of a batch, and the errors that a client raises by class. */
#ifndef LUCKY_SPEC_HPP
#define LUCKY_SPEC_HPP

#include "lucky_spec.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace lucky {

/* code: LUCKY_ERROR_...; the client raises the class of that name. */
class Error : public std::runtime_error {
public:
    Error(std::uint32_t code, const std::string &text) : std::runtime_error(text), code_(code) {}
    explicit Error(const lucky_error &error) : Error(error.code, error.text) {}
    std::uint32_t code() const { return code_; }
    const char *name() const { return lucky_error_name(code_); }

private:
    std::uint32_t code_;
};

template <class T> constexpr std::uint32_t dtype_of() {
    static_assert(std::is_arithmetic<T>::value && sizeof(T) <= 8, "an element is a number of at most 8 bytes");
    if (std::is_same<T, bool>::value) return LUCKY_DTYPE_BOOL;
    if (std::is_floating_point<T>::value) return sizeof(T) == 4 ? LUCKY_DTYPE_FLOAT32 : LUCKY_DTYPE_FLOAT64;
    constexpr std::uint32_t first = std::is_signed<T>::value ? LUCKY_DTYPE_INT8 : LUCKY_DTYPE_UINT8;
    return first + (sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3);
}

/* One array per env. An empty shape is a single number; bounds: none, one number for all elements, or one for each. */
struct Array {
    std::vector<std::uint32_t> shape;
    std::vector<double> low, high;
    std::uint32_t dtype = LUCKY_DTYPE_FLOAT32, discrete = 0; /* discrete: the values of a Discrete space */

    std::size_t size() const {
        std::size_t size = 1;
        for (std::uint32_t extent : shape) size *= extent;
        return size;
    }
};

struct Spec {
    std::string engine;
    std::uint32_t num_envs = 1;
    Array observation, action;
    std::vector<std::string> reward_terms{"reward"}; /* rows of the signals whose sum is the reward */
    std::vector<std::string> termination_terms;      /* further rows: why an env ended, 0 or 1 */
    std::vector<std::string> timeout_terms;          /* those of them that truncate */
    std::vector<std::string> observation_names, action_names;
    double step_s = 0; /* simulated seconds of one step; 0 when not known */
    bool hold = true;  /* false: single envs cannot stand still while the others step */
    std::map<std::string, std::int64_t> attributes; /* what a client sees by VectorEnv.get_attr */
};

/* The same as the C kit takes it; the Spec must live as long. */
class RawSpec {
public:
    explicit RawSpec(const Spec &s) {
        for (const auto &one : s.attributes) attributes_.push_back({one.first.c_str(), one.second});
        attributes_.push_back({nullptr, 0});
        raw_ = lucky_spec();
        raw_.engine = s.engine.c_str();
        raw_.num_envs = s.num_envs;
        raw_.observation = array(s.observation);
        raw_.action = array(s.action);
        const std::vector<std::string> *lists[] = {&s.reward_terms, &s.termination_terms, &s.timeout_terms,
                                                   &s.observation_names, &s.action_names};
        for (std::size_t i = 0; i < 5; i++) {
            for (const std::string &name : *lists[i]) names_[i].push_back(name.c_str());
            names_[i].push_back(nullptr);
        }
        raw_.reward_terms = names_[0].data();
        raw_.termination_terms = names_[1].data();
        raw_.timeout_terms = names_[2].data();
        raw_.observation_names = names_[3].data();
        raw_.action_names = names_[4].data();
        raw_.step_s = s.step_s;
        raw_.cannot_hold = !s.hold;
        raw_.attributes = attributes_.data();
    }
    RawSpec(const RawSpec &) = delete;
    RawSpec &operator=(const RawSpec &) = delete;
    const lucky_spec *get() const { return &raw_; }

private:
    static lucky_array array(const Array &a) {
        lucky_array raw = lucky_array();
        if (a.shape.size() >= LUCKY_MAX_AXES) throw Error(LUCKY_ERROR_SpecError, "a shape has at most 7 axes");
        for (std::size_t axis = 0; axis < a.shape.size(); axis++) {
            if (!a.shape[axis]) throw Error(LUCKY_ERROR_SpecError, "a shape with an empty axis; every extent is at least 1");
            raw.shape[axis] = a.shape[axis];
        }
        if (!a.low.empty() && !a.high.empty() && a.low.size() != a.high.size())
            throw Error(LUCKY_ERROR_SpecError, "low and high have different lengths");
        raw.dtype = a.dtype;
        raw.low = a.low.empty() ? nullptr : a.low.data();
        raw.high = a.high.empty() ? nullptr : a.high.data();
        raw.bounds = static_cast<std::uint32_t>(a.low.empty() ? a.high.size() : a.low.size());
        raw.discrete = a.discrete;
        return raw;
    }

    lucky_spec raw_;
    std::vector<const char *> names_[5];
    std::vector<lucky_attribute> attributes_;
};

} // namespace lucky

#endif
