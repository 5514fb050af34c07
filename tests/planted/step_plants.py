"""Differences of steps, resets and the spec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import EngineFailed, PeerDied
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.methods import Method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame, Stream, Transport
from tests.planted.plant import Plant, PlantedTransport
from tests.planted.tools import STEPS

__all__ = ["STEP_PLANTS"]

P, T, R = "parity --suite step", "pytest --lucky-between", "replay"

#: The exchange in which most plants begin.
AT = 97


def everywhere(name: str, what: str, over: Any, *words: str, **given: Any) -> Plant:
    """Return a plant that all three tools find, with the same words."""
    return Plant(name, what, over, found=dict.fromkeys((P, T, R), words), given=given.get("given", {}))


def by_parity(name: str, what: str, over: Any, *words: str) -> Plant:
    """Return a plant that a program shows which does just that, and `parity` by default."""
    return Plant(name, what, over, found={P: words}, given={P: {"steps": None, "num_envs": None}})


class FramePlant(PlantedTransport):
    """Changes the frame of one exchange."""

    at = AT

    def change(self, frame: Frame) -> None:
        if self.exchange == self.at:
            self.spoil(frame)

    def spoil(self, frame: Frame) -> None:
        """Change the frame."""


class OneBit(FramePlant):
    def spoil(self, frame: Frame) -> None:
        frame.observations[-1, 0:1].view(np.uint32)[0] ^= 1


class OneBitLate(OneBit):
    at = 997


class OneBitTooLate(OneBit):
    at = 5000


class LastOfManyEnvs(FramePlant):
    def spoil(self, frame: Frame) -> None:
        frame.observations[31:, 0] += 1


class SwappedRewards(PlantedTransport):
    def change(self, frame: Frame) -> None:
        if self.exchange >= AT:
            frame.rewards[:2] = frame.rewards[1::-1].copy()


class NanPayload(FramePlant):
    def spoil(self, frame: Frame) -> None:
        frame.observations[2, -1:].view(np.uint32)[0] ^= 1


class NanPayloadInMessage(PlantedTransport):
    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        response = super().call(method, request, deadline)
        if method.python_name == "get_joint_state" and response.success:
            response.state.velocities[0] = float(np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0])
        return response


class OtherFrameNumbers(PlantedTransport):
    """The images of a stream are numbered from 1,000."""

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        return _Renumbered(super().stream(method, request, deadline, copy=copy))


class _Renumbered(Stream):
    def __init__(self, inner: Stream) -> None:
        self._inner = inner

    def __next__(self) -> Any:
        item = next(self._inner)
        return replace(item, frame_number=item.frame_number + 1000) if isinstance(item, ImageFrame) else item

    def cancel(self) -> None:
        self._inner.cancel()


class NegativeZero(FramePlant):
    def spoil(self, frame: Frame) -> None:
        frame.signals[2] = np.where(frame.signals[2] == 0, np.float32(-0.0), frame.signals[2])


class WideSignals(PlantedTransport):
    def change(self, frame: Frame) -> None:
        frame.signals = frame.signals.astype(np.float64)  # type: ignore[assignment]


class SwappedFlags(PlantedTransport):
    def change(self, frame: Frame) -> None:
        frame.terminated, frame.truncated = frame.truncated, frame.terminated


class LostTruncation(PlantedTransport):
    def change(self, frame: Frame) -> None:
        frame.truncated[:] = 0


class OldFinalObservation(PlantedTransport):
    """The observation with which an episode ends is that of the step before."""

    _last: NDArray[Any] | None = None

    def change(self, frame: Frame) -> None:
        ended = (frame.terminated | frame.truncated) != 0
        now = frame.observations.copy()
        if self._last is not None:
            frame.observations[ended] = self._last[ended]
        self._last = now


class StaleFrame(FramePlant):
    """The frame before comes once more."""

    _last: NDArray[Any]

    def change(self, frame: Frame) -> None:
        now = frame.observations.copy()
        super().change(frame)
        self._last = now

    def spoil(self, frame: Frame) -> None:
        frame.observations[:] = self._last


class LostNumber(PlantedTransport):
    """The frames are numbered as if one had been lost."""

    def change(self, frame: Frame) -> None:
        frame.seq += self.exchange >= AT


class KeptState(PlantedTransport):
    """An episode but the first begins a millionth off."""

    def change(self, frame: Frame) -> None:
        if self.exchange > 1 and self.control is not None:
            frame.observations[(self.control & RESET) != 0, 0] += np.float32(1e-6)


class NeverEnded(PlantedTransport):
    def change(self, frame: Frame) -> None:
        frame.any_ended = False


class SeedsOnce(PlantedTransport):
    """Seeds after the first ones are accepted and not passed on."""

    method = "set_seeds"
    _calls = 0

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._calls += method.python_name == self.method
        if method.python_name == self.method and self._calls > 1:
            return method.response(True)
        return super().call(method, request, deadline)


class OptionsOnce(SeedsOnce):
    method = "set_reset_options"


class SeedsOfAll(PlantedTransport):
    """The mask of seeds is lost, so that all envs get theirs."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if method.python_name == "set_seeds":
            request = replace(request, mask=b"")
        return super().call(method, request, deadline)


class LateAutoreset(PlantedTransport):
    """Envs that ended are reset an exchange later."""

    _due: NDArray[np.uint8] | None = None

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if control is None or not (control & HOLD).any():
            control, self._due = self._due, None if control is None else control.copy()
        super().send(actions, control)


class ClippedActions(PlantedTransport):
    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(np.clip(actions, -1, 1), control)


class DeadCounter(PlantedTransport):
    @property
    def out_of_bounds(self) -> int:  # type: ignore[override]
        return 0


class LateCounter(PlantedTransport):
    @property
    def out_of_bounds(self) -> int:  # type: ignore[override]
        return max(0, self.inner.out_of_bounds - 1)


class ChangedActions(PlantedTransport):
    """The caller's own array is another one after a step."""

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(actions, control)
        if actions is not self.actions and actions.flags.writeable:
            actions[-1] += 1


class SentActions(PlantedTransport):
    """Actions that `is_other` tells apart are sent as others."""

    def is_other(self, actions: NDArray[Any]) -> bool:
        """Return whether these are."""
        return False

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(actions / 2 if self.is_other(actions) else actions, control)


class ActionsInPlace(SentActions):
    def is_other(self, actions: NDArray[Any]) -> bool:
        return actions is self.actions


class StridedActions(SentActions):
    def is_other(self, actions: NDArray[Any]) -> bool:
        return not actions.flags.c_contiguous


class WideActions(PlantedTransport):
    """Actions of float64 are cut to float32, where others are rounded."""

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if actions.dtype == np.float64:
            near = actions.astype(np.float32)
            actions = np.where(np.abs(near) > np.abs(actions), np.nextafter(near, np.float32(0)), near)
        super().send(actions, control)


class ViewsOverwritten(PlantedTransport):
    """A typed call writes into the frame that the caller looks at."""

    _last: Frame | None = None

    def change(self, frame: Frame) -> None:
        self._last = frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if self._last is not None:
            self._last.observations[0] = 0
        return super().call(method, request, deadline)


class OnlyWaitedFor(PlantedTransport):
    """The lowest bit of what `recv` returns where no `step` makes the exchange."""

    _steps = False

    def step(
        self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None, deadline: Deadline | None = None
    ) -> Frame:
        self._steps = True
        try:
            return super().step(actions, control, deadline)
        finally:
            self._steps = False

    def change(self, frame: Frame) -> None:
        if not self._steps:
            frame.observations[-1, 0:1].view(np.uint32)[0] ^= 1


class CallsBeside(PlantedTransport):
    """A typed call while a step is under way changes what the step returns."""

    _under_way = _was_called = False

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(actions, control)
        self._under_way, self._was_called = True, False

    def change(self, frame: Frame) -> None:
        self._under_way = False
        frame.observations[0, 0] += self._was_called

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._was_called = self._under_way
        return super().call(method, request, deadline)


class SecondClient(PlantedTransport):
    """A client that came while another one steps is answered otherwise."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        response = super().call(method, request, deadline)
        if not self.capabilities.lockstep and method.python_name == "get_agent_schema":
            response.schema.action_size += 1
        return response


class FirstPixel(PlantedTransport):
    """The first pixel of images of an env's own camera."""

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        found = super().stream(method, request, deadline, copy=copy)
        return _OffByOne(found) if getattr(request, "name", "").startswith("agent_") else found


class _OffByOne(_Renumbered):
    def __next__(self) -> Any:
        item = next(self._inner)
        return replace(item, data=bytes([item.data[0] ^ 1, *item.data[1:]]))


class NoStreams(PlantedTransport):
    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.capabilities = replace(inner.capabilities, streams=False)


def asking(name: str, change: Any) -> Any:
    """Return the plant of requests of a method that are changed on their way."""

    class Asking(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            return super().call(method, change(request) if method.python_name == name else request, deadline)

    return Asking


def _low_seeds(bits: int) -> Any:
    return asking("set_seeds", lambda one: replace(one, seeds=[seed % 2**bits for seed in one.seeds]))


def _clipped(request: Any) -> Any:
    if request.contract is None:
        return request
    noise = min(request.contract.joint_position_noise, 0.05)
    return replace(request, contract=replace(request.contract, joint_position_noise=noise))


def described(**changes: Any) -> Any:
    """Return the plant of a spec in which something is described otherwise."""

    class Described(PlantedTransport):
        def __init__(self, inner: Transport) -> None:
            super().__init__(inner)
            self.spec = replace(inner.spec, **{name: change(inner.spec) for name, change in changes.items()})

    return Described


class OneTermLess(PlantedTransport):
    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.spec = replace(inner.spec, termination_terms=inner.spec.termination_terms[1:])

    def change(self, frame: Frame) -> None:
        frame.signals = np.delete(frame.signals, 2, axis=0)


def _wider(spec: BatchSpec) -> Any:
    return replace(spec.action, low=-2.0, high=2.0)


def _bounded(spec: BatchSpec) -> Any:
    return replace(spec.observation, low=-10.0, high=10.0)


def raising(error: Exception, where: str) -> Any:
    """Return the plant of a transport that raises in one place."""

    class Raising(PlantedTransport):
        def recv(self, deadline: Deadline | None = None) -> Frame:
            if where == "recv" and self.exchange == AT:
                raise error
            return super().recv(deadline)

        def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
            if where == "send" and self.exchange == AT - 1:
                raise error
            super().send(actions, control)

        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            if where == "call" and method.python_name == "set_seeds" and self.exchange > 1:
                raise error
            return super().call(method, request, deadline)

        def close(self) -> None:
            super().close()
            if where == "close":
                raise error

    return Raising


def _raise_at_once(inner: Transport) -> Transport:
    inner.close()
    raise RuntimeError("planted")


_OF_THE_OTHERS = ("not compared: bits of a NaN in a message (a NaN equals every NaN)",)

STEP_PLANTS: tuple[Plant, ...] = (
    everywhere(
        "one bit", "the lowest bit of an observation of the last env", OneBit, "observation", "3", "exchange 97"
    ),
    Plant(
        "one bit late",
        "the same in an exchange that the default number of steps reaches",
        OneBitLate,
        found={P: ("observation of env 15 at [0]", "exchange 997")},
        given={P: {"steps": None, "num_envs": None}},
    ),
    Plant(
        "a server of another kind",
        "what is wrong alike over all paths",
        PlantedTransport,
        unseen={P: ("not compared: what is wrong alike over all paths",)},
    ),
    Plant(
        "one bit too late",
        "the same later",
        OneBitTooLate,
        unseen={
            P: ("of 4 envs are equal bit for bit; later steps were not looked at", f"steps after the first {STEPS}")
        },
    ),
    Plant(
        "the last of 32 envs",
        "only env 31 is wrong",
        LastOfManyEnvs,
        found={P: ("observation of env 31 at [0]", "exchange 97")},
        given={P: {"num_envs": 32, "steps": 120}},
    ),
    Plant(
        "the last of envs that are not asked for",
        "only env 31 is wrong, of 4",
        LastOfManyEnvs,
        unseen={P: ("not compared: batches of other than 4 envs (not asked for; pass --num-envs)",)},
    ),
    everywhere("swapped rewards", "the rewards of two envs", SwappedRewards, "reward", "exchange 97"),
    everywhere(
        "NaN payload", "the bits of a NaN", NanPayload, "observation", "0x7fc00000", "0x7fc00001", "exchange 97"
    ),
    Plant(
        "NaN payload in a message",
        "the bits of a NaN in a response",
        NanPayloadInMessage,
        unseen={T: _OF_THE_OTHERS, R: _OF_THE_OTHERS},
    ),
    Plant(
        "other frame numbers",
        "of the images of a stream",
        OtherFrameNumbers,
        unseen={
            T: ("not compared: items of /hazel.rpc.CameraService/StreamCamera",),
            R: ("not compared: ImageFrame.frame_number",),
        },
    ),
    everywhere("negative zero", "-0.0 for 0.0", NegativeZero, "signals.out_of_range", "-0.0", "exchange 97"),
    everywhere("wide signals", "float64 for float32", WideSignals, "signals.alive", "float64 (4,)", "exchange 1"),
    everywhere("swapped flags", "terminated and truncated", SwappedFlags, "t", "exchange"),
    everywhere("a lost truncation", "no env is ever truncated", LostTruncation, "truncated", "True", "False"),
    Plant(
        "an old final observation",
        "an episode ends with the observation before",
        OldFinalObservation,
        found={P: ("observation of env",), T: ("observation",), R: ("observation[env",)},
        given={P: {"autoreset": "same_step"}},
    ),
    everywhere("a stale frame", "the frame before comes once more", StaleFrame, "observation", "exchange 97"),
    everywhere("a lost number", "a frame's number is skipped", LostNumber, "seq", "exchange 97"),
    Plant(
        "one term less",
        "the spec and the signals lack a term",
        OneTermLess,
        found={
            P: ("spec.termination_terms", "['out_of_range', 'time_out']", "['time_out']"),
            T: ("spec.termination_terms", "['out_of_range', 'time_out']"),
            R: ("recorded with num_terms 4, the engine has 3",),
        },
    ),
    everywhere("no end is told", "`any_ended` stays False", NeverEnded, "any_ended", "True", "False"),
    everywhere("seeds once", "the second seeds have no effect", SeedsOnce, "observation"),
    everywhere("seeds of all", "seeds ignore their mask", SeedsOfAll, "observation"),
    everywhere("options once", "the second reset options have no effect", OptionsOnce, "observation"),
    everywhere("a late autoreset", "ended envs are reset a step later", LateAutoreset, "observation"),
    everywhere("clipped actions", "actions out of bounds are clipped", ClippedActions, "exchange"),
    everywhere(
        "other action bounds", "±2 for ±1", described(action=_wider), "spec.action.high", "1.0", "2.0", "exchange 0"
    ),
    everywhere("other observation bounds", "±10 for none", described(observation=_bounded), "spec.observation."),
    everywhere(
        "another step_s",
        "the simulated time of a step",
        described(step_s=lambda spec: 0.05),
        "spec.step_s",
        "0.02",
        "0.05",
    ),
    everywhere(
        "another max_episode_steps",
        "an attribute of the envs",
        described(attributes=lambda spec: {**spec.attributes, "max_episode_steps": 41}),
        "spec.attributes.max_episode_steps",
        "40",
        "41",
    ),
    everywhere(
        "an attribute more",
        "another attribute of the envs",
        described(attributes=lambda spec: {**spec.attributes, "fov": 60}),
        "spec.attributes.fov",
        "absent",
        "60",
    ),
    everywhere(
        "other names",
        "of the observation's elements",
        described(observation_names=lambda spec: tuple(reversed(spec.observation_names))),
        "spec.observation_names",
    ),
    everywhere("a dead counter", "`out_of_bounds` stays 0", DeadCounter, "out_of_bounds", "0"),
    everywhere("a late counter", "`out_of_bounds` is one too low", LateCounter, "out_of_bounds"),
    everywhere("state kept", "from the last episode, a millionth", KeptState, "observation"),
    everywhere(
        "a step raises",
        "an exception that is no transport's",
        raising(RuntimeError("planted"), "recv"),
        "RuntimeError: planted",
        "exchange 97",
    ),
    everywhere(
        "a send raises", "the same before the step", raising(KeyError("planted"), "send"), "KeyError", "exchange 97"
    ),
    everywhere(
        "a step fails", "an error of transports", raising(EngineFailed("planted"), "recv"), "planted", "exchange 97"
    ),
    everywhere("the peer dies", "in a step", raising(PeerDied("planted"), "recv"), "planted", "exchange 97"),
    everywhere("seeds raise", "the same in a typed call", raising(RuntimeError("planted"), "call"), "RuntimeError"),
    by_parity("actions are changed", "the caller's array after a step", ChangedActions, "actions_passed of env 15"),
    by_parity("actions in place", "of the transport's own array", ActionsInPlace, "observation"),
    by_parity("actions that are not contiguous", "as every second row", StridedActions, "observation"),
    by_parity("actions of float64", "cut, not rounded", WideActions, "observation"),
    by_parity("views overwritten", "by a typed call", ViewsOverwritten, "views_kept", "True", "False"),
    by_parity("only step_wait", "the lowest bit after step_async", OnlyWaitedFor, "observation of env 15 at [0]"),
    by_parity("a call beside a step", "changes what the step returns", CallsBeside, "observation of env 0 at [0]"),
    by_parity("a second client", "is answered otherwise", SecondClient, "typed_call", "action_size=2", "action_size=3"),
    by_parity("the first pixel", "of env.render()", FirstPixel, "render", "render,"),
    by_parity("no streams", "in the capabilities", NoStreams, "capabilities.streams", "True", "False"),
    by_parity("seeds of 16 bits", "the others are cut", _low_seeds(16), "observation"),
    by_parity("seeds of 32 bits", "the others are cut", _low_seeds(32), "observation"),
    by_parity("clipped noise", "of a contract, above 0.05", asking("set_reset_options", _clipped), "observation"),
    by_parity(
        "options lost",
        "but the contract",
        asking("set_reset_options", lambda one: replace(one, options_json="")),
        "observation",
    ),
    Plant(
        "close raises",
        "the same at the end",
        raising(RuntimeError("planted"), "close"),
        found={P: ("RuntimeError: planted", "closing")},
    ),
    Plant(
        "opening raises",
        "the same at the beginning",
        _raise_at_once,
        found={P: ("path 'planted' cannot be opened: RuntimeError: planted",)},
    ),
)
