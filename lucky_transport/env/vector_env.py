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

import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.announcing import Announcer
from lucky_transport.env.autoreset import Block, check_mode, parse_mode, refusal
from lucky_transport.env.composite_actions import CompositeActions
from lucky_transport.env.composite_observations import CompositeObservations
from lucky_transport.env.described import DescribedEnv
from lucky_transport.env.infos import Info, InfoParts, TermColumns
from lucky_transport.env.lifetime import Lifetime, Owner
from lucky_transport.env.registration import make_env, rebuild
from lucky_transport.env.rendering import make_renderer
from lucky_transport.env.resetting import Seed, read_reset, resting_actions
from lucky_transport.errors import (
    Busy,
    ClosedError,
    EngineFailed,
    LocalProtocolError,
    PeerDied,
    SpecError,
    TransportError,
)
from lucky_transport.spec.actions import Bounds, check_actions
from lucky_transport.transport import Frame, Transport

__all__ = ["RewardFunction", "VectorEnv", "make_env"]

#: Computes the reward, float (num_envs,), from the signals: term name -> float32 (num_envs,).
RewardFunction = Callable[[dict[str, NDArray[np.float32]]], NDArray[Any]]

#: What a step returns: observations, rewards, terminated, truncated, info.
StepResult = tuple[Any, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


# Gymnasium's class is named once more: skrl knows an env by the names of its direct bases.
class VectorEnv(DescribedEnv, gymnasium.vector.VectorEnv[Any, Any, NDArray[Any]]):
    """A batch of envs behind a transport; made by `lucky_transport.make` or `gymnasium.make_vec`.

    An in-place policy writes into `transport.actions` and passes that array to `step`. Where the spec has parts,
    observations and actions are dicts and tuples of arrays, nested as in the spaces.
    """

    closed = True  # until it is made: Gymnasium closes what it collects, also half made

    def __init__(
        self,
        transport: Transport,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        reward_fn: RewardFunction | None = None,
        validate: str = "pass",
        render_mode: str | None = None,
        camera: str = "",
        render_size: tuple[int, int] | None = None,
        owner: Owner | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        """Take over `transport` and `owner`; `close` ends both.

        `copy=False` hands observations out as read-only views, valid until the next call. `reward_fn` replaces the
        engine's total reward. `validate="strict"` refuses actions outside the action space. `render_mode="rgb_array"`
        lets `render` return images of `camera` (default: the engine's first), of `render_size` (width, height) or the
        camera's own. `recipe`: the arguments of `lucky_transport.make` that give an env like this one; pickling needs
        them. Raises ValueError for an unknown mode or validation, SpecError for a mode the engine cannot do,
        Unimplemented for a render mode of an engine without a camera, UnknownName for an unknown camera.
        """
        if validate not in ("pass", "strict"):
            raise ValueError(f"validate {validate!r}: expected 'pass' or 'strict'")
        spec = transport.spec
        mode = parse_mode(autoreset_mode)
        check_mode(mode, spec, spec.hold and transport.capabilities.hold)
        super().__init__(transport, mode, make_renderer(transport, render_mode, camera, render_size))
        self._set_shown(copy=copy)
        self._reward_fn = reward_fn
        self._set_exchange(strict=validate == "strict")
        self._columns = TermColumns(spec)
        self._info_parts = InfoParts(spec) if spec.info_parts else None
        self._recipe = None if recipe is None else dict(recipe)
        self._announcer = Announcer(transport)
        self._resting_actions = resting_actions(spec)
        self._block: Block | None = Block.FRESH
        self._ended: NDArray[np.bool_] | None = None  # envs that wait for their reset
        self._control: NDArray[np.uint8] | None = None  # the next step's control bytes
        self._outstanding = False  # a frame may still come for a step that was given up
        self._lifetime = Lifetime(transport, owner)
        self._end = weakref.finalize(self, self._lifetime.end)
        self.closed = False

    def _set_exchange(self, *, strict: bool) -> None:
        """Choose how actions go out; the hot path of a plain spec is the transport's own."""
        self._composite_actions: CompositeActions | None = None
        self._bounds: Bounds | None = None
        self._exchange: Callable[..., Frame] = self.transport.step
        if self.batch_spec.action_parts:
            self._composite_actions = CompositeActions(self.transport, strict=strict)
            self._exchange = self._composite_actions.step
        elif strict:
            self._bounds = Bounds(self.batch_spec.action)

    def _set_shown(self, *, copy: bool) -> None:
        """Choose how a frame's observations are handed out: `_shown` None is as they are, `_nested` as of a copy."""
        self._shown: Callable[[NDArray[Any]], Any] | None = np.ndarray.copy if copy else None
        self._nested: Callable[[NDArray[Any]], Any] | None = None
        if self.batch_spec.observation_parts:
            observations = CompositeObservations(self.batch_spec)
            self._shown = observations.copy if copy else observations.view
            self._nested = observations.view

    @property
    def out_of_bounds(self) -> int:
        """Action values outside the action space so far; they went to the engine as they are."""
        of_parts = 0 if self._composite_actions is None else self._composite_actions.out_of_bounds
        return self.transport.out_of_bounds + of_parts

    def step(self, actions: Any) -> StepResult:
        """Step every env once; `actions`: (num_envs, *action shape), real numbers, or nested arrays of such.

        Returns observations (spec dtype, (num_envs, *shape), copies unless `copy=False`; nested where the spec has
        parts), rewards float32 (num_envs,), terminated and truncated bool (num_envs,), and info (see
        `lucky_transport.env.infos`). Raises ValueError / TypeError
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
        if self._info_parts is not None:
            info |= self._info_parts.info(frame.observations)
        rewards = frame.rewards.copy() if self._reward_fn is None else self._custom_rewards(signals)
        observations = frame.observations if self._shown is None else self._shown(frame.observations)
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
        elif some_ended and not self.batch_spec.resets_itself:
            info |= self._final(frame, signals, ended)
            frame = self._reset_ended(ended)
        if self._info_parts is not None:
            info |= self._info_parts.info(frame.observations)
        if self._reward_fn is not None:
            rewards = self._custom_rewards(signals)
            if control is not None:
                rewards[control != 0] = 0
        observations = frame.observations if self._shown is None else self._shown(frame.observations)
        return observations, rewards, terminated, truncated, info

    def _final(self, frame: Frame, signals: NDArray[np.float32], ended: NDArray[np.bool_]) -> dict[str, Any]:
        """SAME_STEP's info of how episodes ended; rows without a meaning are zero, as in Gymnasium's own info."""
        rows = frame.observations.copy()
        rows[~ended] = 0
        final_info = self._columns.masked_info(signals.copy(), ended)
        if self._info_parts is not None:
            final_info |= self._info_parts.info(rows, ended)
        final = rows if self._nested is None else self._nested(rows)
        return {"final_obs": final, "_final_obs": ended, "final_info": final_info, "_final_info": ended}

    def _reset_ended(self, ended: NDArray[np.bool_]) -> Frame:
        """SAME_STEP's second exchange: the ended envs are reset, the others hold still."""
        control = np.where(ended, np.uint8(RESET), np.uint8(HOLD))
        try:
            return self.transport.step(self._resting_actions, control)
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
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in all envs, or in those of `options["reset_mask"]` (bool (num_envs,)).

        `seed`: an integer (env i gets seed + i) or one per env, None leaving an env's stream as it is. `options` are
        read, never changed; see `lucky_transport.env.resetting`. Returns observations (num_envs, *shape), copies unless
        `copy=False`, and an info that is empty but for info parts. Also the way back after EngineFailed or PeerTimeout.
        """
        if self._block is Block.CLOSED:
            raise self._refusal("reset")
        request = read_reset(self.batch_spec, seed, options)
        if request.partial and self._block in (Block.FRESH, Block.LOST):
            raise self._refusal("a partial reset")
        try:
            self._settle()
            self._announcer.tell(request)
            frame = self.transport.step(self._resting_actions, request.control)
        except BaseException as error:
            self._note_failure(error, sent=True)
            raise
        self._block = None
        still = None if self._ended is None else self._ended & ~request.mask
        self._await_reset(still if still is not None and still.any() else None)
        info = Info() if self._info_parts is None else self._info_parts.info(frame.observations, request.mask)
        return frame.observations if self._shown is None else self._shown(frame.observations), info

    def _settle(self) -> None:
        """Receive the frame of a step that was given up; how that step ended does not matter any more."""
        if self._outstanding:
            with suppress(LocalProtocolError, EngineFailed, Busy):
                self.transport.recv()
            self._outstanding = False

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
        assert self._block is not None
        return refusal(what, self._block, self._ended, backend=self.transport.name)

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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the recipe: loading connects again, or starts an engine process of its own."""
        if self._recipe is None:
            raise TypeError(
                f"{self!r} cannot be pickled: it was built on a transport object; use lucky_transport.make, "
                f"which remembers how"
            )
        return rebuild, (self._recipe,), {"spec": self.spec}
