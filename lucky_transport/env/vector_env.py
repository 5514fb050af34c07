"""`VectorEnv`: Gymnasium's vector API over any transport.

    with lucky_transport.make("toy", num_envs=16) as env:
        observations, info = env.reset(seed=0)
        observations, rewards, terminated, truncated, info = env.step(actions)

A step is one exchange (SAME_STEP: two when an episode ended) and a handful of copies; nothing loops over envs. Wrong
arguments are refused before anything is sent, and leave the env unchanged.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from lucky_transport.client.client import Client
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.async_steps import AsyncSteps, EnvBatch
from lucky_transport.env.autoreset import (
    NotSteppable,
    check_mode,
    no_envs_error,
    no_step_error,
    parse_mode,
    state_error,
)
from lucky_transport.env.composite import CompositeActions, preparation, prepared_after
from lucky_transport.env.connection import EnvConnection, Owner
from lucky_transport.env.described import DescribedEnv
from lucky_transport.env.rendering import make_renderer
from lucky_transport.env.resetting import ResetNegotiator, Seed, neutral_actions, read_reset
from lucky_transport.env.results import RewardFunction, StepResult, StepResults, plain_results
from lucky_transport.env.tensors import TorchObservations
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
    SpecError,
    TransportError,
    Unimplemented,
    is_interruption,
)
from lucky_transport.transport import Frame, Transport

__all__ = ["EnvBatch", "RewardFunction", "VectorEnv"]

#: A partial reset would leave the other envs in an unknown state.
_STATE_UNKNOWN = (NotSteppable.FRESH, NotSteppable.LOST, NotSteppable.UNDER_WAY, NotSteppable.SENT)
#: What `send` may follow: envs that wait for a reset, or are under way, do not concern the others.
_SENDABLE = (None, NotSteppable.ENDED, NotSteppable.SENT)


class VectorEnv(DescribedEnv, gymnasium.vector.VectorEnv[Any, Any, NDArray[Any]]):  # where skrl looks for it
    """A batch of envs behind a transport; made by `lucky_transport.make` or `gymnasium.make_vec`.

    `batch_spec` is the engine's description of itself, `transport` the connection, `client` the typed calls over it,
    `spec` Gymnasium's own and settable, `copy` as it was passed. An in-place policy writes into `transport.actions` and
    passes that array to `step`. Where the spec has parts, observations and actions are dicts and tuples of arrays,
    nested as in the spaces.
    """

    closed = True  # until it is made: Gymnasium closes what it collects, also half made
    _on_host = True  # the last frame has its observations

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
        recipe: Callable[[], VectorEnv] | None = None,
    ) -> None:
        """Take over `transport` and `owner`; `close` ends both.

        `copy=False` hands observations out as read-only views, valid until the next call; where the transport has
        several observation slots, until as many exchanges have begun as it has. `reward_fn` replaces the
        engine's total reward. `validate="strict"` refuses actions outside the action space. `render_mode="rgb_array"`
        lets `render` return images of `camera` (default: the engine's first), of `render_size` (width, height) or the
        camera's own. `recipe`: a picklable function that makes an env like this one; pickling needs it.

        Raises ConfigError for an unknown mode or validation, SpecError for a mode that the engine cannot do,
        Unimplemented for a render mode of an engine without a camera, UnknownName for an unknown camera.
        """
        if validate not in ("pass", "strict"):
            raise ConfigError(f"validate {validate!r}: expected 'pass' or 'strict'")
        spec = transport.spec
        mode = parse_mode(autoreset_mode)
        check_mode(mode, spec, spec.hold and transport.capabilities.hold)
        self.transport = transport
        self.autoreset_mode = mode
        self.copy = copy
        self.batch_spec = spec
        self._describe(make_renderer(transport, render_mode, camera, render_size))
        self._exchange = transport.step  # bound once: the hot path of a plain spec is the transport's own
        strict = validate == "strict"
        composite = CompositeActions(spec, transport.actions, strict=strict) if spec.action_parts else None
        self._composite_actions = composite
        self._prepared = preparation(spec, self._composite_actions, strict=strict)
        self._results = StepResults(spec, copy=copy, reward_fn=reward_fn)
        self._plain_result = plain_results(self._results)
        self._recipe = recipe
        self._reset_negotiator = ResetNegotiator(transport)
        self._neutral_actions = neutral_actions(spec)
        self._make_steps = partial(
            AsyncSteps, transport, mode, self._neutral_actions, reward_fn=reward_fn, strict=strict
        )
        self._steps: AsyncSteps | None = None  # made by the first `send`
        self._not_steppable: NotSteppable | None = NotSteppable.FRESH
        self._ended: NDArray[np.bool_] | None = None  # envs that wait for their reset
        self._control: NDArray[np.uint8] | None = None  # the next step's control bytes
        self._outstanding = False  # a frame may still come for a step that was given up
        self._frame: Frame | None = None  # the last that was received
        self._tensors: TorchObservations | None = None
        self._connection = EnvConnection(transport, owner)
        self._end = weakref.finalize(self, self._connection.end)
        self.closed = False

    @property
    def out_of_bounds(self) -> int:
        """Action values outside the action space so far; they went to the engine as they are."""
        of_parts = 0 if self._composite_actions is None else self._composite_actions.out_of_bounds
        alone = 0 if self._steps is None else self._steps.out_of_bounds
        return self.transport.out_of_bounds + of_parts + alone

    def step(self, actions: Any) -> StepResult:
        """Step every env once; `actions`: (num_envs, *action shape), real numbers, or nested arrays of such.

        Returns observations (spec dtype, (num_envs, *shape), copies unless `copy=False`; nested where the spec has
        parts), rewards float32 (num_envs,), terminated and truncated bool (num_envs,), and info (see
        `lucky_transport.env.infos`).

        Raises SpecError for wrong actions, NeedsReset where a reset must come first, PeerDied,
        PeerTimeout, EngineFailed, ClosedError.
        """
        if self._not_steppable is not None:
            raise self._state_error("step")
        if self._prepared is not None:
            actions = self._prepared(actions)
        control = self._control
        try:
            frame = self._exchange(actions, control)
        except BaseException as error:
            self._note_failure(error)
            raise
        self._frame = frame
        if frame.any_ended or control is not None:
            return self._step_with_ends(frame, control)
        return self._plain_result(frame)

    def step_async(self, actions: Any) -> None:
        """Begin a step and return while the engine is at it; `step_wait` returns what `step` would.

        `actions` may be changed or dropped afterwards. Until `step_wait` returns, views that `copy=False` handed out
        are being overwritten, and of this env only `step_wait`, `reset`, which gives the step up, `client` and `close`
        may be used. With two observation slots the views of the last step stay as they are meanwhile, and
        `observations_torch` shows them. Raises what `step` raises for actions and state.
        """
        if self._not_steppable is not None:
            raise self._state_error("step_async")
        if self._prepared is not None:
            actions = self._prepared(actions)
        try:
            self.transport.send(actions, self._control)
            self._not_steppable = NotSteppable.UNDER_WAY
        except BaseException as error:
            self._note_failure(error)
            raise

    def step_wait(self) -> StepResult:
        """Return the result of the step that `step_async` began, as `step` does; waits for the engine.

        Raises LocalProtocolError when no step is under way, PeerDied, PeerTimeout, EngineFailed, ClosedError.
        """
        if self._not_steppable is not NotSteppable.UNDER_WAY:
            raise no_step_error(self._not_steppable, backend=self.transport.name)
        try:
            frame = self.transport.recv()
        except BaseException as error:
            self._not_steppable = None
            self._note_failure(error)
            raise
        self._not_steppable, self._frame = None, frame
        if frame.any_ended or self._control is not None:
            return self._step_with_ends(frame, self._control)
        return self._plain_result(frame)

    def send(self, actions: Any, env_ids: ArrayLike | None = None) -> None:
        """Begin a step of some envs, each on its own, and return at once; `recv` returns those that ended theirs.

        actions: (k, *action shape), as of `step` but for k envs. env_ids: integers (k,) without duplicates, None for
        all envs. An env may be sent again when `recv` has returned it. An env that ended is reset instead, as
        `autoreset_mode` says. The engine must step its envs independently, over shm or inproc.

        Raises SpecError for wrong actions or ids, LocalProtocolError for an env under way, NeedsReset
        where a reset must come first, Unimplemented where the engine or the transport steps envs together only,
        PeerDied, ClosedError. Nothing was sent then.
        """
        if self._not_steppable not in _SENDABLE:
            raise self._state_error("send")
        steps = self._steps = self._steps or self._make_steps()
        if self._not_steppable is not NotSteppable.SENT:
            steps.ended[:] = False if self._ended is None else self._ended
        if self._tensors is not None:
            self._tensors.before_exchange()
        try:
            steps.send(actions, env_ids)
            self._not_steppable = NotSteppable.SENT
        except BaseException as error:
            if not isinstance(error, Unimplemented):
                self._note_failure(error)
            raise

    def recv(self, min_envs: int = 1, timeout_s: float | None = None) -> EnvBatch:
        """Return all envs that ended their steps, at least `min_envs`: (env_ids, observations, rewards, terminated,
        truncated, info), arrays of k rows; see `EnvBatch`.

        It waits for at most `timeout_s` seconds, by default the step timeout. No env starves: envs begin in turn.
        Where all envs under way were returned, `step` may be called again.

        Raises LocalProtocolError for fewer envs under way, PeerTimeout (nothing is lost, call `recv` again),
        EngineFailed (call `reset`), PeerDied, ClosedError.
        """
        steps = self._steps
        if steps is None or self._not_steppable is not NotSteppable.SENT:
            raise no_envs_error(self._not_steppable, backend=self.transport.name)
        steps.check_least(min_envs)
        deadline = None if timeout_s is None else Deadline(timeout_s)
        try:
            batch = steps.recv(min_envs, deadline)
        except BaseException as error:
            if isinstance(error, PeerTimeout) and steps.is_whole:
                raise
            self._not_steppable, self._outstanding = NotSteppable.LOST, True
            self._connection.explain(error)
            raise
        if not steps.under_way:
            self._not_steppable = None
            self._await_reset(steps.ended.copy() if steps.ended.any() else None)
        return batch

    def _step_with_ends(self, frame: Frame, control: NDArray[np.uint8] | None) -> StepResult:
        """The rest of a step in which envs were reset or have ended."""
        terminated, truncated = frame.terminated.astype(np.bool_), frame.truncated.astype(np.bool_)
        ended = terminated | truncated
        some_ended = bool(ended.any())
        results = self._results
        stepped = None if control is None else control == 0
        rewards, signals = frame.rewards.copy(), frame.signals.copy()
        info = results.columns.info(signals, stepped)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._await_reset(ended if some_ended else None)
        elif some_ended and not self.batch_spec.resets_itself:
            info |= results.final(frame, signals, ended)
            frame = self._reset_ended(ended)
        info |= results.info_parts(frame)
        rewards = results.rewards(rewards, signals, stepped)
        return results.observations(frame), rewards, terminated, truncated, info

    def _reset_ended(self, ended: NDArray[np.bool_]) -> Frame:
        """SAME_STEP's second exchange: the ended envs are reset, the others hold still."""
        control = np.where(ended, np.uint8(RESET), np.uint8(HOLD))
        if self._tensors is not None:
            self._tensors.before_exchange()
        try:
            self._frame = frame = self.transport.step(self._neutral_actions, control)
        except BaseException as error:
            self._note_failure(error)
            raise
        return frame

    def _await_reset(self, ended: NDArray[np.bool_] | None) -> None:
        """From now on the envs of `ended` wait for their reset (None: no env does)."""
        self._ended = ended
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._not_steppable = None if ended is None else NotSteppable.ENDED
        else:
            self._control = None if ended is None else ended.view(np.uint8)  # True is RESET

    def reset(
        self, *, seed: Seed | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in all envs, or in those of `options["reset_mask"]` (bool (num_envs,)).

        `seed`: an integer (env i gets seed + i) or one per env, None leaving an env's stream as it is. `options` are
        read, never changed; see `lucky_transport.env.resetting`. Returns observations (num_envs, *shape), copies unless
        `copy=False`, and an info that is empty but for info parts. Also the way back after EngineFailed or PeerTimeout.
        """
        if self._not_steppable is NotSteppable.CLOSED:
            raise self._state_error("reset")
        request = read_reset(self.batch_spec, seed, options)
        if request.partial and self._not_steppable in _STATE_UNKNOWN:
            raise self._state_error("a partial reset")
        if self._not_steppable in (NotSteppable.UNDER_WAY, NotSteppable.SENT):
            self._not_steppable, self._outstanding = NotSteppable.LOST, True
        try:
            self._drain_outstanding()
            self._reset_negotiator.send(request)
            if self._tensors is not None:
                self._tensors.before_exchange()
            frame = self.transport.step(self._neutral_actions, request.control)
        except BaseException as error:
            self._note_failure(error)
            raise
        self._not_steppable, self._frame = None, frame
        still = None if self._ended is None else self._ended & ~request.mask
        self._await_reset(still if still is not None and still.any() else None)
        return self._results.observations(frame), self._results.info_parts(frame, request.mask)

    def _drain_outstanding(self) -> None:
        """Receive the frame of a step that was given up; how that step ended does not matter any more."""
        if self._outstanding:
            if self._steps is not None:
                self._steps.drain()
            with suppress(LocalProtocolError, EngineFailed, Busy):
                self.transport.recv()
            self._outstanding = False

    def _note_failure(self, error: BaseException) -> None:
        """Remember what a failed exchange means for the next call; raise it anew where the env knows more of it."""
        if not isinstance(error, (PeerDied, LocalProtocolError, ClosedError, SpecError)):
            self._not_steppable = NotSteppable.LOST
            self._outstanding = True
        self._connection.explain(error)

    def _state_error(self, what: str) -> TransportError:
        assert self._not_steppable is not None
        return state_error(what, self._not_steppable, self._ended, backend=self.transport.name)

    def observations_torch(self, device: Any = "cuda") -> Any:
        """Return the observations of the last step or reset as a `torch.Tensor`, (num_envs, *shape), on `device`.

        On a GPU the tensor is a copy of its own. Up to 1.5 MB are copied as `torch.from_numpy(...).to(device)` does.
        More is copied on a stream of its own, before later work of the present stream; the step that would overwrite
        what is copied waits for it. The segment's pages are locked for that until `close`. Where the engine offers its
        observations in device memory, they are copied from there; with `copy=False` the tensor is that memory itself,
        valid until the next call, never once the env is closed or the engine has ended.

        On the CPU the tensor is a copy; with `copy=False`, over a transport whose frames lie in memory that may be
        written, the view that `step` returned: valid as long, and to be read only.

        Raises MissingExtra without PyTorch, ConfigError for what is no device, DeviceError for a device that cannot be
        used here, SpecError for observations with parts or of a dtype that PyTorch lacks, LocalProtocolError before the
        first reset, and while a step is under way unless there are two observation slots, PeerDied, ClosedError.
        """
        frame = self._frame
        under_way = self._not_steppable is NotSteppable.UNDER_WAY and self.transport.observation_slots > 1
        if frame is None or not (under_way or self._not_steppable in (None, NotSteppable.ENDED)):
            raise self._state_error("observations_torch")
        self._connection.check_process()
        if self._tensors is None:
            self._tensors = TorchObservations(self.transport, copies=self._results.copies)
            self._prepared = prepared_after(self._tensors.before_exchange, self._prepared)
        return self._tensors.newest(frame, device, under_way=under_way, on_host=self._on_host)

    @cached_property
    def client(self) -> Client:
        """Typed calls to the engine (`env.client.scene.get_info()`), over the env's own transport and closed with it.

        It is what `lucky_transport.connect` returns, without a second connection.
        """
        return Client(self.transport)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the transport and end the owner; called once, by `close`. Arrays already handed out stay readable."""
        self._not_steppable, self._frame = NotSteppable.CLOSED, None
        if self._tensors is not None and self._connection.is_own:
            self._tensors.close()
        if self._end.alive:
            try:
                self._connection.end()
            except BaseException as error:
                if not is_interruption(error):  # else the next call does it again, or the finalizer
                    self._end.detach()
                raise
            self._end.detach()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the recipe: loading connects again, or starts another engine process."""
        if self._recipe is None:
            raise TypeError(
                f"{self!r} cannot be pickled: it was built on a transport object; use lucky_transport.make, "
                f"which remembers how"
            )
        return self._recipe, (), {"spec": self.spec}
