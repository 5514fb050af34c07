"""`VectorEnv`: Gymnasium's vector API over any transport.

    with lucky_transport.make("toy", num_envs=16) as env:
        observations, info = env.reset(seed=0)
        observations, rewards, terminated, truncated, info = env.step(actions)

Rule 1: a step is one exchange and a handful of copies; nothing loops over envs (SAME_STEP: two when an episode ended).
Rule 2: only the observation may be a view (`copy=False`, read-only); rewards and flags are always fresh arrays, because
        wrappers write into them.
Rule 3: what is refused is refused before anything is sent, and leaves the env as it was.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lucky_transport.actions import Bounds, check_actions
from lucky_transport.attributes import attributes_of, frames_per_second
from lucky_transport.autoreset import Block, NeedsReset, check_mode, parse_mode
from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import (
    Busy,
    ClosedError,
    EngineFailed,
    LocalProtocolError,
    PeerDied,
    SpecError,
    TransportError,
    Unimplemented,
)
from lucky_transport.infos import TermColumns
from lucky_transport.lifetime import Lifetime, Owner
from lucky_transport.messages.methods import Method, method
from lucky_transport.registration import make_env, rebuild
from lucky_transport.resetting import ResetRequest, Seed, read_reset, resting_actions
from lucky_transport.transport import Frame, Transport

__all__ = ["RewardFunction", "VectorEnv", "make_env"]

#: Computes the reward, float (num_envs,), from the signals: term name -> float32 (num_envs,).
RewardFunction = Callable[[dict[str, NDArray[np.float32]]], NDArray[Any]]

#: What a step returns: observations, rewards, terminated, truncated, info.
StepResult = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_SET_RESET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")


class VectorEnv(gymnasium.vector.VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """A batch of envs behind a transport; made by `lucky_transport.make` or `gymnasium.make_vec`.

    `batch_spec` is what the engine told about itself, `transport` the connection (an in-place policy writes into
    `transport.actions` and passes that array to `step`), `spec` Gymnasium's own and settable.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        reward_fn: RewardFunction | None = None,
        validate: str = "pass",
        owner: Owner | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        """Take over `transport` and `owner`; `close` ends both.

        `copy=False` hands observations out as read-only views, valid until the next call. `reward_fn` replaces the
        engine's total reward. `validate="strict"` refuses actions outside the action space. `recipe`: the arguments of
        `lucky_transport.make` that give an env like this one; pickling needs them. Raises ValueError for an unknown
        mode or validation, SpecError for a mode the engine cannot do.
        """
        if validate not in ("pass", "strict"):
            raise ValueError(f"validate {validate!r}: expected 'pass' or 'strict'")
        spec = transport.spec
        self.autoreset_mode = parse_mode(autoreset_mode)
        check_mode(self.autoreset_mode, spec, spec.hold and transport.capabilities.hold)
        self.transport = transport
        self.batch_spec = spec
        self._set_gymnasium_attributes()
        self._attributes = attributes_of(spec)
        self._copy = copy
        self._reward_fn = reward_fn
        self._bounds = Bounds(spec.action) if validate == "strict" else None
        self._columns = TermColumns(spec)
        self._recipe = None if recipe is None else dict(recipe)
        self._unanswered: set[str] = set()  # methods the engine lacks; said once each
        self._resting_actions = resting_actions(spec)
        self._exchange = transport.step
        self._block: Block | None = Block.FRESH
        self._ended: NDArray[np.bool_] | None = None  # envs that wait for their reset
        self._control: NDArray[np.uint8] | None = None  # the next step's control bytes
        self._outstanding = False  # a frame may still come for a step that was given up
        self._lifetime = Lifetime(transport, owner)
        self._end = weakref.finalize(self, self._lifetime.end)

    def _set_gymnasium_attributes(self) -> None:
        spec = self.batch_spec
        self.num_envs = spec.num_envs
        observation_space, action_space = spec.observation.space(), spec.action.space()
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = batch_space(observation_space, spec.num_envs)
        self.action_space = batch_space(action_space, spec.num_envs)
        self.render_mode = None
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        fps = frames_per_second(spec)
        if fps is not None:
            self.metadata["render_fps"] = fps

    @property
    def out_of_bounds(self) -> int:
        """Action values outside the action space so far; they went to the engine as they are."""
        return self.transport.out_of_bounds

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every env once; `actions`: (num_envs, *action shape), real numbers.

        Returns observations (spec dtype, (num_envs, *shape), copies unless `copy=False`), rewards float32 (num_envs,),
        terminated and truncated bool (num_envs,), and info (see `lucky_transport.infos`). Raises ValueError / TypeError
        for wrong actions, NeedsReset where a reset must come first, PeerDied, PeerTimeout, EngineFailed, ClosedError.
        """
        if self._block is not None:
            raise self._refusal("step")
        if self._bounds is not None:
            actions = check_actions(self.batch_spec, actions)
            self._bounds.check(actions)
        control = self._control
        try:
            frame = self._exchange(actions, control)
        except BaseException as error:
            self._note_failure(error)
            raise
        if frame.any_ended or control is not None:
            return self._step_with_ends(frame, control)
        signals = frame.signals.copy()
        info = self._columns.info(signals)
        rewards = frame.rewards.copy() if self._reward_fn is None else self._custom_rewards(signals)
        observations = frame.observations.copy() if self._copy else frame.observations
        n = self.num_envs
        return observations, rewards, np.zeros(n, np.bool_), np.zeros(n, np.bool_), info

    def _step_with_ends(self, frame: Frame, control: NDArray[np.uint8] | None) -> StepResult:
        """The rest of a step in which envs were reset or have ended."""
        terminated, truncated = frame.terminated.astype(np.bool_), frame.truncated.astype(np.bool_)
        ended = terminated | truncated
        some_ended = bool(ended.any())
        rewards, signals = frame.rewards.copy(), frame.signals.copy()
        if control is None:
            info = self._columns.info(signals)
        else:
            info = self._columns.masked_info(signals, control == 0)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._await_reset(ended if some_ended else None)
        elif some_ended:
            final = frame.observations.copy()
            final[~ended] = 0  # rows without a meaning hold no stale numbers, as in Gymnasium's own info
            info |= {"final_obs": final, "_final_obs": ended, "_final_info": ended}
            info["final_info"] = self._columns.masked_info(signals.copy(), ended)
            frame = self._reset_ended(ended)
        if self._reward_fn is not None:
            rewards = self._custom_rewards(signals)
            if control is not None:
                rewards[control != 0] = 0
        observations = frame.observations.copy() if self._copy else frame.observations
        return observations, rewards, terminated, truncated, info

    def _reset_ended(self, ended: NDArray[np.bool_]) -> Frame:
        """SAME_STEP's second exchange: the ended envs are reset, the others hold still."""
        control = np.where(ended, np.uint8(RESET), np.uint8(HOLD))
        try:
            return self._exchange(self._resting_actions, control)
        except BaseException as error:
            self._note_failure(error, sent=True)
            raise

    def _await_reset(self, ended: NDArray[np.bool_] | None) -> None:
        """From now on the envs of `ended` wait for their reset (None: no env does)."""
        self._ended = ended
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._block = None if ended is None else Block.ENDED
        else:
            self._control = None if ended is None else ended.view(np.uint8)  # True is RESET

    def _custom_rewards(self, signals: NDArray[np.float32]) -> NDArray[np.float32]:
        assert self._reward_fn is not None
        # a copy: what the caller's function keeps or changes must not show up in info
        rewards: Any = np.asarray(self._reward_fn(dict(zip(self._columns.names, signals.copy(), strict=True))))
        if rewards.shape != (self.num_envs,) or rewards.dtype.kind not in "fiub":
            raise ValueError(
                f"reward_fn returned {rewards.dtype} {rewards.shape}, expected real numbers of shape ({self.num_envs},)"
            )
        return np.array(rewards, np.float32)

    def reset(
        self, *, seed: Seed | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start a new episode in all envs, or in those of `options["reset_mask"]` (bool (num_envs,)).

        `seed`: an integer (env i gets seed + i) or one per env, None leaving an env's stream as it is. `options` are
        read, never changed; see `lucky_transport.resetting`. Returns observations (num_envs, *shape), copies unless
        `copy=False`, and an empty info. Also the way back after EngineFailed or PeerTimeout.
        """
        if self._block is Block.CLOSED:
            raise self._refusal("reset")
        request = read_reset(self.batch_spec, seed, options)
        if request.partial and self._block in (Block.FRESH, Block.LOST):
            raise self._refusal("a partial reset")
        try:
            self._settle()
            self._tell(request)
            frame = self._exchange(self._resting_actions, request.control)
        except BaseException as error:
            self._note_failure(error, sent=True)
            raise
        self._block = None
        still = None if self._ended is None else self._ended & ~request.mask
        self._await_reset(still if still is not None and still.any() else None)
        return frame.observations.copy() if self._copy else frame.observations, {}

    def _settle(self) -> None:
        """Receive the frame of a step that was given up; how that step ended does not matter any more."""
        if self._outstanding:
            with suppress(LocalProtocolError, EngineFailed, Busy):
                self.transport.recv()
            self._outstanding = False

    def _tell(self, request: ResetRequest) -> None:
        """Send the seeds and options of a reset, before its exchange."""
        for message, row in ((request.options, _SET_RESET_OPTIONS), (request.seeds, _SET_SEEDS)):
            if message is None or row.name in self._unanswered:
                continue
            try:
                answer = self.transport.call(row, message)
            except Unimplemented:
                self._warn_without(row)
                continue
            if not answer.success:
                raise SpecError(f"engine {self.batch_spec.engine!r} refused {row.python_name}: {answer.message}")

    def _warn_without(self, row: Method) -> None:
        self._unanswered.add(row.name)
        what = "seeds: episodes are not reproducible" if row is _SET_SEEDS else "reset options: they have no effect"
        warnings.warn(f"engine {self.batch_spec.engine!r} takes no {what}", UserWarning, stacklevel=4)

    def _note_failure(self, error: BaseException, *, sent: bool = False) -> None:
        """Remember what a failed exchange means for the next call; a dead engine's last words go into the error.

        `sent`: something may have reached the engine before `error` was raised.
        """
        ours = isinstance(error, TransportError)
        if isinstance(error, PeerDied):
            words = self._lifetime.last_words()
            if words:
                raise PeerDied(f"{error}\nthe engine process ended with {words}", backend=error.backend) from error
            return
        if isinstance(error, (LocalProtocolError, ClosedError, SpecError)):
            return  # nothing reached the engine
        if ours or sent or not isinstance(error, (ValueError, TypeError)):
            self._block = Block.LOST
            self._outstanding = True

    def _refusal(self, what: str) -> TransportError:
        backend = self.transport.name
        if self._block is Block.CLOSED:
            return ClosedError(f"{what}: the env is closed", backend=backend, hint="make a new one")
        assert self._block is not None
        text, hint = f"{what} is not possible: {self._block.value}", "call reset()"
        if self._ended is not None and self._block is Block.ENDED:
            text += f" (envs {np.flatnonzero(self._ended).tolist()})"
            hint = "pass their mask to reset(options={'reset_mask': mask})"
        return NeedsReset(text, backend=backend, hint=hint)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the envs, once per env; raises AttributeError naming those there are."""
        if name not in self._attributes:
            raise AttributeError(
                f"the envs have no attribute {name!r}; they have: {', '.join(sorted(self._attributes))}"
            )
        return (self._attributes[name],) * self.num_envs

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of the envs (as Gymnasium's `call` does for what cannot be called), or render them."""
        if name == "render":
            return self.render()
        return self.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Raise AttributeError: what the engine told about itself is fixed."""
        raise AttributeError(
            f"attribute {name!r} cannot be set: it is engine {self.batch_spec.engine!r}'s own; pass "
            f"reset(options={{...}}), or start the engine with other options"
        )

    def render(self) -> tuple[Any, ...]:
        """Raise Unimplemented: no transport carries images yet."""
        raise Unimplemented(
            "images do not travel yet", backend=self.transport.name, hint="watch the engine's own window"
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Close the transport and end the owner; called once, by `close`. Arrays already handed out stay readable."""
        self._block = Block.CLOSED
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"VectorEnv({self.batch_spec.engine}, num_envs={self.num_envs}, transport={self.transport.name}, "
            f"autoreset_mode={self.autoreset_mode.name})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the recipe: loading connects again, or starts an engine process of its own."""
        if self._recipe is None:
            raise TypeError(
                f"{self!r} cannot be pickled: it was built on a transport object; use lucky_transport.make, "
                f"which remembers how"
            )
        return rebuild, (self._recipe,), {"spec": self.spec}
