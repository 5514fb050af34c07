"""Wrong calls, made on purpose: each must raise the same class with the same text on every transport.

A wrong call is refused before anything is sent, so it changes no env and a comparison can go on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport_migration.compare.difference import error_text

Call = Callable[[VectorEnv], object]


def _zeros(env: VectorEnv) -> Any:
    return np.zeros(env.batch_spec.action_shape, env.batch_spec.action.dtype)


def _step_zeros(env: VectorEnv) -> object:
    return env.step(_zeros(env))


#: The wrong calls that need an env of a certain age, as (name, call).
BEFORE_RESET: tuple[str, Call] = ("step before reset", _step_zeros)
AFTER_CLOSE: tuple[str, Call] = ("step after close", _step_zeros)


def wrong_calls(env: VectorEnv) -> Iterator[tuple[str, Call]]:
    """Yield (name, call) of what can be done wrong with an env that was reset; `env` tells which apply."""
    shape, n = env.batch_spec.action_shape, env.num_envs
    yield "one env too many", lambda env: env.step(np.zeros((n + 1, *shape[1:]), env.batch_spec.action.dtype))
    yield "one axis too many", lambda env: env.step(_zeros(env)[None])
    if shape != (one := (1,) * len(shape)):
        yield "one action for all envs", lambda env: env.step(np.zeros(one, env.batch_spec.action.dtype))
    yield "text as actions", lambda env: env.step(np.full(shape, "left"))
    if np.dtype(env.batch_spec.action.dtype).kind == "f":
        yield "NaN action", lambda env: env.step(_with(_zeros(env), np.nan))
        yield "infinite action", lambda env: env.step(_with(_zeros(env), np.inf))
    else:
        yield "fractional actions", lambda env: env.step(np.full(shape, 0.5))
    yield "reset mask of integers", lambda env: env.reset(options={"reset_mask": np.ones(n, np.int64)})
    yield "reset mask of another length", lambda env: env.reset(options={"reset_mask": np.ones(n + 1, np.bool_)})
    yield "reset mask of no env", lambda env: env.reset(options={"reset_mask": np.zeros(n, np.bool_)})
    yield "negative seed", lambda env: env.reset(seed=-1)
    yield "unknown randomization", lambda env: env.reset(options={"randomization": {"gravity_on_mars": 1.0}})


def _with(actions: Any, value: float) -> Any:
    actions.flat[-1] = value
    return actions


def reset_randomized(env: VectorEnv) -> object:
    """Reset all envs with a contract that changes what both shipped engines randomise (nothing wrong about it)."""
    contract = {"joint_position_noise": 0.04, "friction_range": [0.6, 1.1], "mass_scale_range": [0.9, 1.1]}
    return env.reset(options={"randomization": contract})


#: What an engine may take or refuse in a reset, by name; the contract comes last, and stays in force.
TAKEN: Mapping[str, Call] = {
    "large seeds": lambda env: env.reset(seed=2**63 + 1),
    "other options": lambda env: env.reset(options={"noise": 0.02}),
    "a wide contract": lambda env: env.reset(options={"randomization": {"joint_position_noise": 0.3}}),
    "randomised episodes": reset_randomized,
}


def outcome(env: VectorEnv, call: Call) -> str:
    """Return what the wrong call did, as "Class: text"; "no error" when it was let through."""
    try:
        call(env)
    except Exception as error:  # whatever it is, it is the thing to be compared
        return error_text(error)
    return "no error"
