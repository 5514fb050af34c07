"""The engine `gymnasium:<id>`: N copies of any registered Gymnasium env.

With the same seed and actions, envs that are reset one exchange after they ended give bitwise the trajectory of
`gymnasium.vector.SyncVectorEnv` (its rewards as float32).
"""

from __future__ import annotations

import difflib
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import error as gymnasium_error
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler
from lucky_transport.engine_options import answer_seeds, check_num_envs, option_names, requested_options
from lucky_transport.errors import (
    ConfigError,
    EngineFailed,
    MissingExtra,
    SpecError,
    TransportError,
    UnknownName,
    did_you_mean,
)
from lucky_transport.messages import (
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SetSeedsRequest,
    SetSeedsResponse,
    SimulationContract,
)
from lucky_transport.spec.array_spec import fitting
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.composite import Part, Path, arrays, nested, place, tree_of
from lucky_transport.spec.spaces import array_of

_log = logging.getLogger("lucky_transport")
_REWARD = ArraySpec("float32")
_REGISTER = (
    "write gymnasium:MODULE:{id}, with the module that registers it: the engine is another process, which imports it "
    "first; what a script registers itself is found with transport='inproc'"
)
_MODULE = (
    "install that package, or run where the module is: it is looked for on sys.path, PYTHONPATH included, and by "
    "`lucky-transport serve` in the working folder too"
)


class _Rows:
    """The rows of `buffers`: an env shows its observation and reward there, and finds its action."""

    def __init__(self, spec: BatchSpec, buffers: Buffers) -> None:
        self._spec, self._buffers = spec, buffers
        self._observations = arrays(buffers.observations, spec.observation, spec.observation_parts)
        taken = arrays(buffers.actions, spec.action, spec.action_parts)
        self._actions = {path: view for path, _, view in taken}
        self._tree = tree_of("action", spec.action_parts or [Part((), spec.action)])

    def write_observation(self, index: int, observation: Any) -> None:
        """Show `observation`, nested as the env's space, in row `index`; raises SpecError for what does not fit."""
        for path, array, rows in self._observations:
            name = place("observation", path)
            rows[index] = self._fitting(index, name, self._at(index, observation, path), array, "its observation_space")

    def write_reward(self, index: int, reward: Any) -> None:
        """Make `reward` that of row `index`; raises SpecError for what is no real number."""
        out = self._buffers
        out.signals[0, index] = out.rewards[index] = self._fitting(index, "reward", reward, _REWARD, "the frame")

    def _fitting(self, index: int, name: str, value: Any, array: ArraySpec, says: str) -> NDArray[Any]:
        if np.shape(value) != array.shape:  # NumPy would silently stretch it over the row
            raise self._misfit(index, name, f"shape {np.shape(value)}, {says} says {array.shape}")
        try:
            return fitting(value, array.dtype)
        except ValueError as error:
            raise self._misfit(index, name, f"{error}, {says} says {array.dtype}") from error

    def _at(self, index: int, observation: Any, path: Path) -> Any:
        for depth, key in enumerate(path):
            try:
                observation = observation[key]
            except (KeyError, IndexError, TypeError) as error:
                at = place("observation", path[:depth])
                raise self._misfit(index, at, f"no {key!r}, which its observation_space has") from error
        return observation

    def _misfit(self, index: int, name: str, what: str) -> SpecError:
        return SpecError(
            f"{self._spec.engine}: env {index}: {name} has {what}",
            backend="gymnasium",
            hint="mend the env; gymnasium.utils.env_checker.check_env(env) shows where",
        )

    def read_action(self, index: int) -> Any:
        """Return the action of env `index`, nested as its space: an int for a Discrete, else an array of its own."""
        return nested(self._tree, lambda part: self._read(part, index))

    def _read(self, part: Part, index: int) -> Any:
        row = self._actions[part.path][index]
        return int(row) if part.array.n else row.copy()  # an env may keep its action; the buffer is the driver's


class GymnasiumEngine(Engine):
    """Owns `envs` and closes them. An env is called only when its control byte says so; its `info` is
    dropped, and the first one that holds something is logged.

    A seed or options set ahead are used once, by the next reset; later resets are `env.reset()` without either, as
    Gymnasium's own vector envs autoreset.
    """

    def __init__(
        self,
        env_id: str,
        envs: list[gymnasium.Env[Any, Any]],
        seed: int | None = None,
        parallel_envs: int | None = None,
    ) -> None:
        """Env i's first reset uses seed + i, or no seed at all when `seed` is None. `parallel_envs`: how many envs may
        step at the same time, each on a thread, where a client sends them on their own (None: one a CPU).

        Raises SpecError for spaces that cannot travel.
        """
        self._envs = envs
        self.parallel_envs = len(os.sched_getaffinity(0)) if parallel_envs is None else parallel_envs
        self.spec = _spec(env_id, envs)
        self._seeds: dict[int, int] = {} if seed is None else {i: seed + i for i in range(len(envs))}
        self._options: dict[str, Any] | None = None
        self._dropped: set[Any] = set()
        self._buffers: Buffers
        self._rows: _Rows

    @property
    def services(self) -> Mapping[str, Handler]:
        prefix = "/lucky_transport.v1.BatchService/"
        return {prefix + "SetSeeds": self._set_seeds, prefix + "SetResetOptions": self._set_reset_options}

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._rows = _Rows(self.spec, buffers)

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if control is None:
            for index, env in enumerate(self._envs):
                self._step_env(index, env)
            return
        try:
            for index, (env, what) in enumerate(zip(self._envs, control.tolist(), strict=True)):
                if what & RESET:
                    self._reset_env(index, env)
                elif not what & HOLD:
                    self._step_env(index, env)
        finally:  # a reset that fails has used them, too
            if (control & RESET).any():
                self._options = None

    def step_env(self, env: int, control: int) -> None:
        if control & RESET:
            self._reset_env(env, self._envs[env])
        else:
            self._step_env(env, self._envs[env])

    def _reset_env(self, index: int, env: gymnasium.Env[Any, Any]) -> None:
        observation, info = env.reset(seed=self._seeds.pop(index, None), options=self._options)
        self._drop(info)
        out = self._buffers
        self._rows.write_observation(index, observation)
        out.signals[0, index] = out.rewards[index] = 0
        out.terminated[index] = out.truncated[index] = 0

    def _step_env(self, index: int, env: gymnasium.Env[Any, Any]) -> None:
        out = self._buffers
        observation, reward, terminated, truncated, info = env.step(self._rows.read_action(index))
        self._drop(info)
        self._rows.write_observation(index, observation)
        self._rows.write_reward(index, reward)
        out.terminated[index] = bool(terminated)
        out.truncated[index] = bool(truncated)

    def _drop(self, info: Any) -> None:
        """Say once of each part of an env's info that it does not reach the client."""
        if isinstance(info, Mapping) and (new := cast("Mapping[Any, Any]", info).keys() - self._dropped):
            self._dropped |= new
            names = ", ".join(sorted(map(str, new)))
            _log.warning("%s: info of its envs is dropped, a frame has no place for it: %s", self.spec.engine, names)

    def _set_seeds(self, request: SetSeedsRequest) -> SetSeedsResponse:
        return answer_seeds(request, self.spec.num_envs, self._seeds.update)

    def _set_reset_options(self, request: SetResetOptionsRequest) -> SetResetOptionsResponse:
        """Keep the options for the next exchange in which envs are reset."""
        if request.contract is not None and request.contract != SimulationContract():
            return SetResetOptionsResponse(
                False, f"{self.spec.engine} knows no randomisation contract; pass what its reset() takes as options"
            )
        self._options = requested_options(request)
        return SetResetOptionsResponse(True)

    def close(self) -> None:
        """Close every env, also when one of them fails to; then raise the first one's failure."""
        with ExitStack() as stack:
            for env in self._envs:
                stack.callback(env.close)
            self._envs = []


def _spec(env_id: str, envs: list[gymnasium.Env[Any, Any]]) -> BatchSpec:
    first = envs[0]
    for index, env in enumerate(envs[1:], 1):
        if env.observation_space != first.observation_space or env.action_space != first.action_space:
            raise SpecError(
                f"gymnasium:{env_id}: env {index} has other spaces than env 0; a batch needs the same in all"
            )
    try:
        observation, observation_parts = array_of("observation space", first.observation_space)
        action, action_parts = array_of("action space", first.action_space)
    except SpecError as error:
        raise SpecError(f"gymnasium:{env_id}: {error}", backend="gymnasium") from error
    attributes = {
        "env_id": first.spec.id if first.spec else None,
        "task": env_id,
        "task_description": f"the Gymnasium env {env_id}",
        "max_episode_steps": first.spec.max_episode_steps if first.spec else None,
        "render_fps": first.metadata.get("render_fps"),
    }
    return BatchSpec(
        engine=f"gymnasium:{env_id}",
        num_envs=len(envs),
        observation=observation,
        action=action,
        observation_parts=observation_parts,
        action_parts=action_parts,
        attributes={key: value for key, value in attributes.items() if value is not None},
    )


def make_engine(
    variant: str = "", num_envs: int = 1, *, seed: int | None = None, parallel_envs: int | None = None, **options: Any
) -> GymnasiumEngine:
    """Return an engine of `num_envs` envs `gymnasium.make(variant, **options)`.

    Raises UnknownName (no such id), MissingExtra (the env needs a package), ConfigError (num_envs, an unknown option),
    SpecError (an option's value, spaces), EngineFailed (the env's constructor raised).
    """
    envs = _make_envs(variant, check_num_envs(num_envs), options)
    with ExitStack() as stack:
        for env in envs:
            stack.callback(env.close)
        engine = GymnasiumEngine(variant, envs, seed, parallel_envs)
        stack.pop_all()  # the engine closes them
    return engine


def _make_envs(env_id: str, num_envs: int, options: Mapping[str, Any]) -> list[gymnasium.Env[Any, Any]]:
    """Return that many envs `gymnasium.make(env_id, **options)`.

    Gymnasium's passive checker is off unless `options` say otherwise: it is a tool for writing an env, and would warn
    in each of N copies. Raises UnknownName, MissingExtra, ConfigError (an unknown option), SpecError (its value),
    EngineFailed; then no env is left open.
    """
    if not env_id:
        raise UnknownName("the gymnasium engine needs an env id", hint="use gymnasium:CartPole-v1")
    arguments: dict[str, Any] = {"disable_env_checker": True, **options}
    with _warnings_to_log(env_id), ExitStack() as stack:
        try:
            envs = [stack.enter_context(closing(gymnasium.make(env_id, **arguments))) for _ in range(num_envs)]
        except Exception as error:
            raise _explained(env_id, options, error) from error
        stack.pop_all()
    return envs


@contextmanager
def _warnings_to_log(env_id: str) -> Iterator[None]:
    """Log each warning of Gymnasium's once, not once per env."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        _log.warning("gymnasium:%s: %s", env_id, text)


def _explained(env_id: str, options: Mapping[str, Any], error: Exception) -> TransportError:
    """Return the error of ours that says what Gymnasium's means."""
    text = f"gymnasium:{env_id}: {type(error).__name__}: {error}"
    match error:
        case gymnasium_error.UnregisteredEnv():
            near = difflib.get_close_matches(env_id, gymnasium.registry, n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _REGISTER.format(id=env_id)
            return UnknownName(f"no Gymnasium env {env_id!r}", backend="gymnasium", hint=hint)
        case gymnasium_error.DependencyNotInstalled():
            return MissingExtra(text, backend="gymnasium")
        case ModuleNotFoundError():
            return MissingExtra(text, backend="gymnasium", hint=_MODULE)
        case TypeError():
            if unknown := next((name for name in options if f"unexpected keyword argument {name!r}" in str(error)), ""):
                known = _option_names(env_id)
                hint = f"{did_you_mean(unknown, known)}options: {', '.join(known)}"
                return ConfigError(
                    f"engine 'gymnasium:{env_id}' has no option {unknown!r}", backend="gymnasium", hint=hint
                )
            return SpecError(
                text, backend="gymnasium", hint=f"options {dict(options)} go to gymnasium.make; see the env's page"
            )
        case gymnasium_error.DeprecatedEnv():
            return UnknownName(text, backend="gymnasium")
        case gymnasium_error.Error() if "Malformed environment ID" in str(error):
            return UnknownName(text, backend="gymnasium", hint="write for instance gymnasium:CartPole-v1")
        case gymnasium_error.Error():
            return SpecError(text, backend="gymnasium")
        case _:
            return EngineFailed(text, backend="gymnasium")


def _option_names(env_id: str) -> list[str]:
    """Return what `gymnasium.make` takes for this env: the arguments of the env's own constructor, and its own."""
    creator = gymnasium.spec(env_id.rpartition(":")[2]).entry_point  # its module is imported by now
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    of_env = option_names(creator) if creator is not None else []
    return [*of_env, *(name for name in option_names(gymnasium.make) if name not in ("id", *of_env))]
