"""The Step of typed calls: what a request asks for, the exchange, and the responses.

A Step steps its agent alone, in one exchange with all other envs held. What is wrong with one request goes into its
response (success = false); what concerns the engine is raised.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import TICK
from lucky_transport.errors import LocalProtocolError, SpecError, raise_wire_error
from lucky_transport.foreign_code import foreign_code
from lucky_transport.host.driver_lease import STEP, Driver, DriverLease, only
from lucky_transport.host.task import agent_index
from lucky_transport.messages import (
    AgentFrame,
    GetCameraFrameRequest,
    NamedImageFrame,
    RewardContract,
    StepResponse,
    TaskContract,
    TerminationContract,
)
from lucky_transport.spec.actions import check_actions
from lucky_transport.spec.batch_spec import BatchSpec

CameraFrames = Sequence[NamedImageFrame]


@dataclass(frozen=True, slots=True)
class Terms:
    """The reward and termination terms that a client's Steps carry: (name, row of the signals)."""

    rewards: tuple[tuple[str, int], ...]
    terminations: tuple[tuple[str, int], ...]

    @classmethod
    def every(cls, spec: BatchSpec) -> Terms:
        """Return all terms of the spec."""
        return cls.of(spec, spec.reward_terms, spec.termination_terms)

    @classmethod
    def of(cls, spec: BatchSpec, rewards: Sequence[str], terminations: Sequence[str]) -> Terms:
        """Return the named terms; a name that the spec does not have is left out."""
        first = len(spec.reward_terms)
        reward_rows = {name: row for row, name in enumerate(spec.reward_terms)}
        termination_rows = {name: row for row, name in enumerate(spec.termination_terms, first)}
        return cls(
            tuple((name, reward_rows[name]) for name in rewards if name in reward_rows),
            tuple((name, termination_rows[name]) for name in terminations if name in termination_rows),
        )


class NegotiatedTerms:
    """The terms each client negotiated last; all terms for a client that never did."""

    #: Legacy clients do not detach; beyond this many the one that negotiated longest ago is forgotten.
    MAX_CLIENTS = 1024

    def __init__(self, spec: BatchSpec) -> None:
        self._spec = spec
        self.every = Terms.every(spec)
        self._lock = threading.Lock()
        self._negotiated: OrderedDict[str, Terms] = OrderedDict()

    def note(self, caller: str, contract: TaskContract) -> None:
        """Have the Steps of `caller` carry exactly the terms of `contract` from now on."""
        rewards = contract.rewards or RewardContract()
        terminations = contract.terminations or TerminationContract()
        asked = Terms.of(
            self._spec,
            [term.name for term in rewards.engine_terms],
            [term.name for term in terminations.terms],
        )
        with self._lock:
            self._negotiated[caller] = asked
            self._negotiated.move_to_end(caller)
            if len(self._negotiated) > self.MAX_CLIENTS:
                self._negotiated.popitem(last=False)

    def of(self, caller: str) -> Terms:
        """Return the terms of `caller`'s Steps."""
        return self._negotiated.get(caller, self.every)

    def forget(self, caller: str) -> None:
        """Forget the terms of a client that has gone."""
        with self._lock:
            self._negotiated.pop(caller, None)


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One agent's Step: flat `actions` for env `env`, or why it is refused (`refusal`).

    ticks: it brought no actions, so the engine's own policies drive. shows: on an env that was reset and not stepped
    since, it only asks for the observation. That is a Step that a client of ours marked, or the real client's zero
    action on an engine whose reset has ticked already. cameras: the images to be taken with it.
    """

    env: int
    actions: NDArray[Any] | None
    refusal: str = ""
    ticks: bool = False
    shows: bool = False
    cameras: tuple[GetCameraFrameRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What a client adds to its Steps.

    seq: the number of its exchange; a repeated one is answered again and not done again (0: not numbered). marked: the
    Step only shows what the ResetAgent just before it led to.
    """

    seq: int = 0
    marked: bool = False


class AgentSteps:
    """The Steps of one lease."""

    def __init__(self, lease: DriverLease) -> None:
        self._lease = lease
        self._engine = lease.host.engine
        self._actions = lease.buffers.actions.reshape(lease.spec.num_envs, -1)

    def read(self, request: Any, cameras: Sequence[GetCameraFrameRequest] = (), *, marked: bool = False) -> AgentStep:
        """Return what a request asks for; never raises for what is wrong with it, but EngineFailed.

        request: a StepRequest, or the same message in a transport's own form.
        """
        spec = self._lease.spec
        try:
            env = env_of(spec, request.agent_name)
            if cameras:
                self._engine.check_camera_requests(env, cameras)
            actions = _read_actions(spec, env, request)
        except (ValueError, TypeError) as error:
            return AgentStep(0, None, str(error))
        except BaseException as error:  # the engine's check of cameras
            raise_wire_error(spec.engine, "check_camera_requests", error)
        grouped = len(request.action_groups) > 0
        ticks = not grouped and len(request.actions) == 0
        tick_of_reset = spec.reset_ticks == 1 and not grouped and not actions.any()
        return AgentStep(env, actions, "", ticks, marked or tick_of_reset, tuple(cameras))

    def run(
        self,
        step: AgentStep,
        driver: Driver,
        timeout_s: float,
        responses: StepResponses,
        terms: Terms,
        options: StepOptions,
    ) -> Any:
        """Do the step in one exchange and return its response, as `responses` makes it.

        Raises Busy, PeerTimeout, LocalProtocolError (a mark without a reset, no hold) and what the step raises.
        """
        if step.refusal:
            return responses.refusal(step.refusal)

        def act() -> Any:
            shows = self._only_shows(step, options)
            took_us = 0 if shows else self._exchange(step, driver.key, options.seq)
            return responses.show(step.env, terms, took_us, self._camera_frames(step))

        return self._lease.run(driver, timeout_s, act)

    def _only_shows(self, step: AgentStep, options: StepOptions) -> bool:
        """True when the frame already shows the result of the reset; it does so for one Step."""
        if step.shows and self._lease.fresh[step.env]:
            self._lease.fresh[step.env] = False
            return True
        if options.marked:
            raise LocalProtocolError(
                f"agent_{step.env} was not reset by this client just before a Step marked as the one after a reset"
            )
        return False

    def _exchange(self, step: AgentStep, client: str, seq: int) -> int:
        took_us = 0

        def exchange() -> None:
            nonlocal took_us
            self._actions[step.env] = step.actions
            took_us = self._lease.exchange(self._control(step))

        if seq:
            self._lease.once((client, step.env), seq, exchange)
        else:
            exchange()
        return took_us

    def _control(self, step: AgentStep) -> NDArray[np.uint8] | None:
        """Return the control bytes by which this agent steps and all others hold."""
        if self._lease.spec.num_envs == 1 and not step.ticks:
            return None
        return only(self._lease.spec, [step.env], TICK if step.ticks else STEP)

    def _camera_frames(self, step: AgentStep) -> CameraFrames:
        """Return the step's camera frames; none where it asked for none."""
        if not step.cameras:
            return ()
        with foreign_code(self._lease.spec.engine, "camera_frames"):
            return self._engine.camera_frames(step.env, step.cameras)


def env_of(spec: BatchSpec, agent_name: str) -> int:
    """Return the env of an agent. Raises ValueError naming the agents there are."""
    env = agent_index(spec, agent_name)
    if env < 0:
        last = spec.num_envs - 1
        raise ValueError(f"no agent {agent_name!r}; there are agent_0{f' to agent_{last}' if last else ''}")
    return env


def _read_actions(spec: BatchSpec, env: int, request: Any) -> NDArray[Any]:
    """Return the flat actions of one env: spec dtype (action size,), finite.

    Without actions all are zero; groups are laid over what else is given. Raises ValueError or TypeError with the text
    of `lucky_transport.spec.actions`, as on every transport.
    """
    if spec.has_parts:
        raise SpecError(
            f"engine {spec.engine!r} has observations or actions with parts, and a Step carries one row of numbers",
            hint="step it as a batch, which carries every part as it is",
        )
    size = spec.action.size
    if len(request.actions):
        values = np.array(request.actions, np.float32)
    else:
        values = np.zeros(size, np.float32)
    if values.shape == (size,):
        for group in request.action_groups:
            _lay_over(values, group)
        if np.isfinite(values).all():
            return _cast(spec, values)
    return _refuse(spec, env, values)


def _lay_over(values: NDArray[np.float32], group: Any) -> None:
    name, indices = group.group_name, list(group.action_indices)
    if len(indices) != len(group.actions):
        raise ValueError(f"action group {name!r} has {len(group.actions)} actions for {len(indices)} indices")
    outside = [index for index in indices if not 0 <= index < len(values)]
    if outside:
        raise ValueError(f"action group {name!r}: index {outside[0]}, expected 0 to {len(values) - 1}")
    values[indices] = group.actions


def _cast(spec: BatchSpec, values: NDArray[np.float32]) -> NDArray[Any]:
    wanted = np.dtype(spec.action.dtype)
    if wanted.kind not in "iu":
        return values.astype(wanted, copy=False)
    whole = np.rint(values)
    if (whole != values).any():
        raise TypeError(f"actions {values.tolist()}: expected integers ({wanted}): the action space is discrete")
    limits = np.iinfo(wanted)
    if (whole < limits.min).any() or (whole > limits.max).any():
        raise ValueError(f"actions {values.tolist()} do not fit into {wanted}")
    return whole.astype(wanted)


def _refuse(spec: BatchSpec, env: int, values: NDArray[np.float32]) -> NDArray[Any]:
    """Raise the error of `check_actions` for actions of a wrong count or with a value that is not finite."""
    if values.shape != (spec.action.size,):
        one_env = dataclasses.replace(
            spec, num_envs=1, action=dataclasses.replace(spec.action, dtype="float32", shape=(spec.action.size,))
        )
        return check_actions(one_env, values[None])
    batch = np.zeros((spec.num_envs, *spec.action.shape), np.float32)
    batch[env] = values.reshape(spec.action.shape)
    as_floats = dataclasses.replace(spec, action=dataclasses.replace(spec.action, dtype="float32"))
    return check_actions(as_floats, batch)


class StepResponses:
    """Makes one response per agent from the frame in the lease's buffers; only while the lease is held.

    A transport that has the same messages in its own form passes their classes as `response` and `frame`, and `image`
    converts a NamedImageFrame, so that nothing else is converted.
    """

    def __init__(
        self,
        lease: DriverLease,
        response: Callable[..., Any] = StepResponse,
        frame: Callable[..., Any] = AgentFrame,
        image: Callable[[NamedImageFrame], Any] | None = None,
    ) -> None:
        n = lease.spec.num_envs
        self._lease = lease
        self._response = response
        self._frame = frame
        self._image = image
        self._observations = lease.buffers.observations.reshape(n, -1)
        self._actions = lease.buffers.actions.reshape(n, -1)
        self._names = [f"agent_{env}" for env in range(n)]

    def refusal(self, message: str) -> Any:
        """Return the response of a Step that did not happen."""
        return self._response(success=False, message=message)

    def show(self, env: int, terms: Terms, took_us: int, images: CameraFrames = ()) -> Any:
        """Return the response of one env, with the present frame; all fields are copies.

        images: its camera frames, in the order in which the client asked for them.
        """
        buffers = self._lease.buffers
        signals = buffers.signals[:, env].tolist()
        frame = self._frame(
            timestamp_ms=time.time_ns() // 1_000_000,
            frame_number=int(self._lease.frame_numbers[env]),
            observations=self._observations[env].astype(np.float32, copy=False).tolist(),  # what the message carries
            actions=self._actions[env].astype(np.float32, copy=False).tolist(),
            agent_name=self._names[env],
        )
        return self._response(
            success=True,
            observation=frame,
            physics_step_duration_us=took_us,
            camera_frames=self._camera_frames(images),
            reward_signals={name: signals[term] for name, term in terms.rewards},
            terminated=bool(buffers.terminated[env]),
            truncated=bool(buffers.truncated[env]),
            termination_flags={name: bool(signals[term]) for name, term in terms.terminations},
        )

    def _camera_frames(self, images: CameraFrames) -> list[Any]:
        return list(images) if self._image is None else [self._image(one) for one in images]
