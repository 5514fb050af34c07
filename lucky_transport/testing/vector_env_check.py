"""A checker for any Gymnasium vector env: what wrappers and training frameworks rely on, tried out on the env itself.

    from lucky_transport.testing import check_vector_env

    check_vector_env(gymnasium.make_vec("CartPole-v1", num_envs=3))

It resets and steps the env, twice with one seed, and reports all faults at once, each with its value and what breaks.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Iterator, Mapping
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

__all__ = ["VectorEnvFaults", "check_vector_env"]

_NEXT, _SAME, _OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED

#: An option of a reset that no env knows, as frameworks pass some of their own.
_FOREIGN_OPTION = {"lucky_transport_check": True}


class VectorEnvFaults(AssertionError):
    """What is wrong with an env. faults: rule -> a sentence."""

    def __init__(self, env: Any, faults: Mapping[str, str]) -> None:
        lines = "".join(f"\n  {rule}: {text}" for rule, text in faults.items())
        super().__init__(f"{env} breaks the contract of gymnasium.vector.VectorEnv:{lines}")
        self.faults = dict(faults)


def check_vector_env(env: Any, *, steps: int = 200, seed: int = 0, copy: bool = True) -> list[str]:
    """Return sentences about what could not be checked; the env keeps the contract in everything else.

    The env is reset and stepped `steps` times with random actions, two or three times, and stays open. Episodes should
    end within `steps`. `copy=False`: the env hands out observations that the next step overwrites, by design.

    Raises VectorEnvFaults with everything that is wrong.
    """
    return _Check(env, steps, seed, copy).run()


class _Check:
    """One check: collects the first fault of each rule."""

    def __init__(self, env: Any, steps: int, seed: int, copy: bool) -> None:
        self.env = env
        self.steps, self.seed, self.copies = steps, seed, copy
        self.faults: dict[str, str] = {}
        self.notes: list[str] = []
        self.ended_once = False
        self.is_vector_env = isinstance(env, gymnasium.vector.VectorEnv)
        self.wrapped = isinstance(env, gymnasium.vector.VectorWrapper)

    def fault(self, rule: str, text: str) -> None:
        self.faults.setdefault(rule, text)

    def run(self) -> list[str]:
        self.attributes()
        if self.faults:
            raise VectorEnvFaults(self.env, self.faults)  # nothing can be stepped by a wrong description
        self.mode: AutoresetMode = self.env.metadata["autoreset_mode"]
        first = self.trajectory(self.seed, scribble=False)
        if not self.faults:
            self.repeat(first)
            self.options()
            self.images()
        if self.faults:
            raise VectorEnvFaults(self.env, self.faults)
        if not self.ended_once:
            self.notes.append(f"no episode ended within {self.steps} steps: nothing of autoreset was checked")
        return self.notes

    # --- what the env says of itself ---

    def attributes(self) -> None:
        env = self.env
        if not self.is_vector_env:
            self.fault("class", f"{type(env).__name__} is no gymnasium.vector.VectorEnv: wrappers refuse it")
            return
        num_envs: Any = getattr(env, "num_envs", None)
        if not isinstance(num_envs, int) or num_envs < 1:
            self.fault("num_envs", f"{num_envs!r}, expected a whole number of envs")
            return
        for kind in ("observation", "action"):
            single, batched = getattr(env, f"single_{kind}_space", None), getattr(env, f"{kind}_space", None)
            if not isinstance(single, Space) or not isinstance(batched, Space):
                self.fault(f"{kind}_space", f"{batched!r} of single {single!r}, expected two spaces")
            elif not _alike(cast("Any", batched), batch_space(cast("Any", single), num_envs)):
                self.fault(f"{kind}_space", f"{batched} is not a batch of {num_envs} times {single}")
        mode = cast("dict[str, Any]", env.metadata or {}).get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            self.fault(
                "autoreset_mode",
                f"metadata['autoreset_mode'] is {mode!r}, expected a gymnasium.vector.AutoresetMode: wrappers raise",
            )
        try:
            env.unwrapped.spec = env.unwrapped.spec
        except AttributeError:
            self.fault("spec", "the attribute cannot be set: gymnasium.make_vec sets it")

    # --- stepping ---

    def trajectory(self, seed: Any, *, scribble: bool) -> list[Any]:
        """Return copies of all results of `steps` steps after a reset with `seed`; checks each of them.

        `scribble`: write into the arrays that were returned, as wrappers do.
        """
        env = self.env
        space: Space[Any] = copying.deepcopy(env.action_space)
        space.seed(self.seed)
        observation = self.checked_reset(env.reset(seed=seed))
        kept: list[Any] = [(copying.deepcopy(observation),)]
        self.scribbled((observation,), scribble)
        waiting = np.zeros(env.num_envs, np.bool_)  # envs that the next step resets
        for number in range(1, self.steps + 1):
            result = env.step(space.sample())
            if not self.checked_step(result, f"step {number}", waiting):
                return kept
            ended: NDArray[np.bool_] = result[2] | result[3]
            self.ended_once |= bool(ended.any())
            kept.append(copying.deepcopy(result[:4]))  # infos may hold wall-clock times
            self.scribbled(result[:4], scribble)
            if not scribble:
                self.unchanged(kept, observation, number)
            observation = result[0]
            waiting = ended if self.mode is _NEXT else np.zeros_like(ended)
            if self.mode is _OFF and ended.any():
                observation = self.partial_reset(kept[-1][0], ended)
                kept.append((copying.deepcopy(observation),))
        return kept

    def checked_reset(self, result: Any) -> Any:
        """Check what a reset returned; returns the observations."""
        if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
            self.fault("reset", f"returned {_kind(result)}, expected (observations, info)")
            return None
        observation, info = cast("tuple[Any, Any]", result)
        self.observation(observation, "reset")
        self.info(info, "reset")
        return observation

    def checked_step(self, result: Any, where: str, waiting: NDArray[np.bool_]) -> bool:
        """Check a step's result; False where stepping makes no sense any more."""
        if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 5:
            self.fault("step", f"{where} returned {_kind(result)}, expected a tuple of five")
            return False
        observation, rewards, terminated, truncated, info = cast("tuple[Any, ...]", result)
        self.observation(observation, where)
        self.info(info, where)
        self.rewards(rewards, where)
        for name, flags in (("terminated", terminated), ("truncated", truncated)):
            self.array(name, flags, where, "b", "bool")
        if self.faults:
            return False
        if np.shares_memory(terminated, truncated):
            self.fault("truncated", f"{where}: terminated and truncated are one array")
        if waiting.any() and (rewards[waiting].any() or (terminated | truncated)[waiting].any()):
            self.fault(
                "next_step",
                f"{where} follows the end of envs {np.flatnonzero(waiting).tolist()}, but has rewards "
                f"{rewards[waiting].tolist()}, flags {(terminated | truncated)[waiting].tolist()}: "
                f"in NEXT_STEP that step resets, with reward 0",
            )
        self.final(info, terminated | truncated, where)
        return True

    def observation(self, observation: Any, where: str) -> None:
        if observation not in self.env.observation_space:
            self.fault("observation", f"{where}: {_text(observation)} is not in {self.env.observation_space}")

    def rewards(self, rewards: Any, where: str) -> None:
        self.array("rewards", rewards, where, "f", "floating")
        if "rewards" not in self.faults and not np.isfinite(rewards).all():
            self.fault("rewards", f"{where}: {rewards} is not finite")

    def array(self, rule: str, value: Any, where: str, kind: str, expected: str) -> None:
        num_envs = self.env.num_envs
        if not isinstance(value, np.ndarray):
            self.fault(rule, f"{where}: a {type(value).__name__}, expected a NumPy array of shape ({num_envs},)")
            return
        array = cast("NDArray[Any]", value)
        if array.shape != (num_envs,) or array.dtype.kind != kind:
            self.fault(rule, f"{where}: {array.dtype} {array.shape}, expected {expected} ({num_envs},)")

    def info(self, info: Any, where: str, name: str = "info") -> None:
        """Each value has a row per env, each mask is a bool per env; groups of values are dicts."""
        if not isinstance(info, dict):
            self.fault("info", f"{where}: {name} is a {type(info).__name__}, expected a dict")
            return
        for key, value in cast("dict[Any, Any]", info).items():
            at = f"{where}: {name}[{key!r}]"
            if not isinstance(key, str):
                self.fault("info", f"{at}: expected names of type str")
            elif key.startswith("_"):
                self.array("info mask", value, at, "b", "bool")
            elif key == "episode" and not self.wrapped:
                self.fault("info", f"{at}: RecordEpisodeStatistics raises where this name is taken")
            elif isinstance(value, dict):
                self.info(value, where, f"{name}[{key!r}]")
            elif not isinstance(value, (np.ndarray, tuple)) or len(cast("Any", value)) != self.env.num_envs:
                kind = type(cast("Any", value)).__name__
                self.fault("info", f"{at} is a {kind}, expected an array with a row per env: DictInfoToList raises")

    def final(self, info: Mapping[str, Any], ended: NDArray[np.bool_], where: str) -> None:
        """In SAME_STEP the last observations are in info, in the other modes there are none."""
        mask = info.get("_final_obs")
        if self.mode is not _SAME:
            if "final_obs" in info:
                self.fault("final_obs", f"{where}: info has 'final_obs', which only SAME_STEP has")
            return
        told = np.zeros_like(ended) if mask is None else np.asarray(mask)
        if ended.any() and not ({"final_obs", "final_info"} <= info.keys()):
            self.fault("final_obs", f"{where}: envs ended, but info has no 'final_obs' or no 'final_info'")
        elif not np.array_equal(told, ended):
            self.fault("final_obs", f"{where}: mask {told.tolist()}, envs that ended {ended.tolist()}")
        elif ended.any():
            index = int(np.flatnonzero(ended)[0])
            row = _row(info["final_obs"], index)
            if row not in self.env.single_observation_space:
                self.fault("final_obs", f"{where}: {_text(row)} is not in {self.env.single_observation_space}")

    def unchanged(self, kept: list[Any], observation: Any, number: int) -> None:
        """What the step before returned must still be there: replay buffers keep it."""
        if self.copies and not _equal(observation, kept[-2][0]):
            self.fault("overwritten", f"step {number} changed the observations that were returned before it")

    def partial_reset(self, before: Any, mask: NDArray[np.bool_]) -> Any:
        """Reset the envs of `mask`; the others stay as they are."""
        options = {"reset_mask": mask.copy()}
        observation = self.checked_reset(self.env.reset(options=options))
        self.options_kept(options, {"reset_mask": mask})
        pairs = zip(_leaves(before), _leaves(observation), strict=True)
        if not all(np.array_equal(old[~mask], new[~mask]) for old, new in pairs):
            self.fault("reset_mask", f"a reset of envs {np.flatnonzero(mask).tolist()} changed others")
        return observation

    # --- doing it again ---

    def repeat(self, first: list[Any]) -> None:
        """One seed gives one trajectory, given as a number or as a list, whatever is done to what was returned."""
        seeds = [self.seed + index for index in range(self.env.num_envs)]
        second = self.trajectory(seeds, scribble=True)
        if self.faults or _equal(first, second):
            return
        if not _equal(first[0], second[0]):
            self.fault("seed", f"reset(seed={self.seed}) and reset(seed={seeds}) give other observations")
            return
        third = self.trajectory(self.seed, scribble=False)
        if _equal(first, third):
            self.fault("shared memory", "what a caller writes into returned arrays changes what the env returns later")
        else:
            self.fault("seed", f"seed {self.seed} and the same actions give another trajectory the second time")

    def scribbled(self, returned: tuple[Any, ...], scribble: bool) -> None:
        for array in _leaves(returned) if scribble else ():
            if isinstance(array, np.ndarray) and array.flags.writeable:
                cast("NDArray[Any]", array)[...] = 1

    def options(self) -> None:
        options = dict(_FOREIGN_OPTION)
        for given in ({}, options):
            try:
                self.checked_reset(self.env.reset(seed=self.seed, options=given))
            except Exception as error:  # of a foreign env: any
                self.fault("options", f"reset(options={given}) raised {type(error).__name__}: {error}")
        self.options_kept(options, _FOREIGN_OPTION)

    def options_kept(self, options: dict[str, Any], before: Mapping[str, Any]) -> None:
        """Wrappers read the same options afterwards."""
        if options.keys() == before.keys() and all(np.array_equal(options[key], before[key]) for key in before):
            return
        text = f"reset() changed the options, from {sorted(before)} to {sorted(options)}: wrappers read them afterwards"
        if type(self.env.unwrapped).__module__.startswith("gymnasium."):
            if text not in self.notes:
                self.notes.append(text)
        else:
            self.fault("options", text)

    def images(self) -> None:
        env = self.env
        if env.render_mode != "rgb_array":
            return
        images = env.render()
        if not isinstance(images, tuple) or len(cast("tuple[Any, ...]", images)) != env.num_envs:
            self.fault("render", f"returned {_text(images)}, expected a tuple of {env.num_envs} images")
        elif any(getattr(one, "dtype", None) != np.uint8 or one.ndim != 3 for one in cast("tuple[Any, ...]", images)):
            self.fault("render", f"images are {_text(cast('Any', images)[0])}, expected uint8 (height, width, 3)")
        if "render_fps" not in env.metadata:
            self.fault("render", "metadata has no 'render_fps': RecordVideo needs it")


def _alike(space: Space[Any], expected: Space[Any]) -> bool:
    """True for equal spaces, and for arrays of one dtype and shape whose bounds differ from env to env."""
    kinds: list[Any] = [(one.shape, one.dtype) for one in (space, expected)]
    return bool(space == expected) or (space.shape is not None and kinds[0] == kinds[1])


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the arrays of a nest of dicts and tuples."""
    if isinstance(value, dict):
        branches: Any = cast("dict[Any, Any]", value).values()
    elif isinstance(value, (tuple, list)):
        branches = cast("Any", value)
    else:
        yield value
        return
    for branch in branches:
        yield from _leaves(branch)


def _equal(one: Any, other: Any) -> bool:
    """True when two nests hold the same values, bit for bit."""
    left, right = list(_leaves(one)), list(_leaves(other))
    return len(left) == len(right) and all(map(_same, left, right))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        mine, theirs = cast("NDArray[Any]", one), cast("NDArray[Any]", other)
        if mine.dtype == object or theirs.dtype == object:
            return mine.shape == theirs.shape and all(map(_same, mine.ravel(), theirs.ravel()))
        return mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()
    return bool(np.all(one == other))


def _row(values: Any, index: int) -> Any:
    """Return one env's row of an array (also of objects), or of a dict or tuple of arrays."""
    if isinstance(values, dict):
        return {key: _row(value, index) for key, value in cast("dict[Any, Any]", values).items()}
    if isinstance(values, tuple):
        return tuple(_row(value, index) for value in cast("tuple[Any, ...]", values))
    return values[index]


def _kind(value: Any) -> str:
    """Return the type of a value, of a tuple its length too."""
    if isinstance(value, tuple):
        return f"a tuple of {len(cast('tuple[Any, ...]', value))}"
    return type(value).__name__


def _text(value: Any) -> str:
    """Return what a value is: an array's dtype, shape and range, a nest's arrays."""
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        limits = f" from {array.min()} to {array.max()}" if array.size else ""
        return f"{array.dtype} {array.shape}{limits}"
    if isinstance(value, (dict, tuple, list)):
        return f"{type(cast('Any', value)).__name__} of {', '.join(map(_text, _leaves(value)))}"
    return repr(value)
