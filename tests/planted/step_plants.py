"""Differences of steps, resets and the spec."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import EngineFailed, PeerDied
from lucky_transport.messages.methods import Method, method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame, Stream, Transport
from tests.planted.changes import PlantedStream, answers, asking, fails, frames, one_bit, pixels
from tests.planted.plant import Plant, PlantedTransport
from tests.planted.tools import STEPS

P, T, R = "parity --suite step", "pytest --lucky-between", "replay"

#: The exchange in which most plants begin.
AT = 97

#: What `parity` looks at of its own accord.
_DEFAULTS = {"steps": None, "num_envs": None}


def everywhere(name: str, over: Any, *words: str) -> Plant:
    """Return a plant that all three tools find, with the same words."""
    return Plant(name, over, words, (P, T, R))


def by_parity(name: str, over: Any, *words: str, steps: int | None = STEPS) -> Plant:
    """Return a plant that a program shows which does just that, and `parity` of its own accord, in its first steps."""
    return Plant(name, over, words, (P,), given={P: _DEFAULTS | {"steps": steps}})


def _last_of_many(frame: Frame) -> None:
    frame.observations[31:, 0] += 1


def _swapped_rewards(frame: Frame) -> None:
    frame.rewards[:2] = frame.rewards[1::-1].copy()


def _nan_payload(frame: Frame) -> None:
    frame.observations[2, -1:].view(np.uint32)[0] ^= 1


def _nan_of_message(response: Any) -> None:
    if response.success:
        response.state.velocities[0] = float(np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0])


def _negative_zero(frame: Frame) -> None:
    frame.signals[2] = np.where(frame.signals[2] == 0, np.float32(-0.0), frame.signals[2])


class OldFinalObservation(PlantedTransport):
    """The observation with which an episode ends is that of the step before."""

    _last: NDArray[Any] | None = None

    def change(self, frame: Frame) -> None:
        ended = (frame.terminated | frame.truncated) != 0
        now = frame.observations.copy()
        if self._last is not None:
            frame.observations[ended] = self._last[ended]
        self._last = now


class KeptState(PlantedTransport):
    """An episode but the first begins a millionth off."""

    def change(self, frame: Frame) -> None:
        if self.exchange > 1 and self.control is not None:
            frame.observations[(self.control & RESET) != 0, 0] += np.float32(1e-6)


def lost(name: str, is_lost: Callable[[list[Any]], bool]) -> Any:
    """Return the plant of requests of a method that are accepted and not passed on: `is_lost` gets all until now."""

    class Lost(PlantedTransport):
        def __init__(self, inner: Transport) -> None:
            super().__init__(inner)
            self.asked: list[Any] = []

        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            if method.python_name == name:
                self.asked.append(request)
                if is_lost(self.asked):
                    return method.response(True)
            return super().call(method, request, deadline)

    return Lost


def _had_their_seeds(asked: list[Any]) -> bool:
    """True where each env had its seed of the last request before."""
    *before, last = (
        {(env, seed) for env, seed in enumerate(one.seeds) if not one.mask or one.mask[env]} for one in asked
    )
    return last <= set().union(*before)


class LateAutoreset(PlantedTransport):
    """Envs that ended are reset an exchange later."""

    _due: NDArray[np.uint8] | None = None

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if control is None or not (control & HOLD).any():
            control, self._due = self._due, None if control is None else control.copy()
        super().send(actions, control)


class AllEnded(PlantedTransport):
    """Where all envs ended in one step, the last of them is not reset."""

    _all_ended = False

    def change(self, frame: Frame) -> None:
        self._all_ended = bool((frame.terminated | frame.truncated).all())

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if self._all_ended and control is not None:
            control = control.copy()
            control[-1] = 0
        super().send(actions, control)


class DeadCounter(PlantedTransport):
    """No action is counted that was out of bounds."""

    out_of_bounds = 0  # type: ignore[assignment]


class ChangedActions(PlantedTransport):
    """The caller's own array is another one after a step."""

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(actions, control)
        if actions is not self.actions and actions.flags.writeable:
            actions[-1] += 1


def sending(alter: Callable[[Transport, NDArray[Any]], NDArray[Any]]) -> Any:
    """Return the plant of actions that are sent as others."""

    class Sending(PlantedTransport):
        def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
            super().send(alter(self, actions), control)

    return Sending


def halving(is_halved: Callable[[Transport, NDArray[Any]], bool]) -> Any:
    """Return the plant of some actions that are sent half as large."""
    return sending(lambda to, actions: actions / 2 if is_halved(to, actions) else actions)


def _cut_to_float32(_: Transport, actions: NDArray[Any]) -> NDArray[Any]:
    """Cut actions of float64, where others are rounded."""
    near = actions.astype(np.float32)
    return np.where(np.abs(near) > np.abs(actions), np.nextafter(near, np.float32(0)), near)


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


class NextDriver(PlantedTransport):
    """The first frame of a client that steps after another one has closed."""

    _closed = False
    _steps = False

    def change(self, frame: Frame) -> None:
        frame.observations[0, 0] += NextDriver._closed and not self._steps
        self._steps = True

    def close(self) -> None:
        NextDriver._closed |= self._steps
        super().close()


class OtherThread(PlantedTransport):
    """A frame that a thread receives which has not connected."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._home = threading.get_ident()

    def change(self, frame: Frame) -> None:
        frame.observations[0, 0] += threading.get_ident() != self._home


class RenderedPixel(PlantedTransport):
    """A pixel of images of an env's own camera."""

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        found = super().stream(method, request, deadline, copy=copy)
        is_own = getattr(request, "name", "").startswith("agent_")
        return PlantedStream(found, pixels()(iter(found))) if is_own else found


class NoStreams(PlantedTransport):
    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.capabilities = replace(inner.capabilities, streams=False)


def _low_seeds(bits: int) -> Any:
    return asking("set_seeds", lambda one: replace(one, seeds=[seed % 2**bits for seed in one.seeds]))


def _no_zeros(request: Any) -> Any:
    taken = request.mask or bytes([1] * len(request.seeds))
    return replace(request, mask=bytes(int(on and seed != 0) for on, seed in zip(taken, request.seeds, strict=True)))


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
    everywhere("one bit", one_bit(AT), "observation", "3", "exchange 97"),
    Plant("one bit late", one_bit(997), ("observation of env 15 at [0]", "exchange 997"), (P,), given={P: _DEFAULTS}),
    Plant(
        "a server of another kind", PlantedTransport, unseen={P: ("not compared: what is wrong alike over all paths",)}
    ),
    Plant(
        "one bit too late",
        one_bit(5000),
        unseen={
            P: ("of 4 envs are equal bit for bit; later steps were not looked at", f"steps after the first {STEPS}")
        },
    ),
    Plant(
        "the last of 32 envs",
        frames(_last_of_many, AT),
        ("observation of env 31 at [0]", "exchange 97"),
        (P,),
        given={P: {"num_envs": 32, "steps": 120}},
    ),
    Plant(
        "the last of envs that are not asked for",
        frames(_last_of_many, AT),
        unseen={P: ("not compared: batches of other than 4 envs (not asked for; pass --num-envs)",)},
    ),
    everywhere("swapped rewards", frames(_swapped_rewards, AT), "reward", "exchange 97"),
    everywhere("NaN payload", frames(_nan_payload, AT), "observation", "0x7fc00000", "0x7fc00001", "exchange 97"),
    Plant(
        "NaN payload in a message",
        answers(method("MujocoService/GetJointState"), _nan_of_message),
        unseen={T: _OF_THE_OTHERS, R: _OF_THE_OTHERS},
    ),
    everywhere("negative zero", frames(_negative_zero, AT), "signals.out_of_range", "-0.0", "exchange 97"),
    everywhere(
        "wide signals",
        frames(lambda one: setattr(one, "signals", one.signals.astype(np.float64))),
        "signals.alive",
        "float64 (4,)",
        "exchange 1",
    ),
    everywhere("a lost truncation", frames(lambda one: one.truncated.fill(0)), "truncated", "True", "False"),
    Plant(
        "an old final observation",
        OldFinalObservation,
        ("observation", "env"),
        (P, T, R),
        given={P: {"autoreset": "same_step"}},
    ),
    everywhere("a lost number", frames(lambda one: setattr(one, "seq", one.seq + 1), AT), "seq", "exchange 97"),
    Plant(
        "one term less", OneTermLess, ("spec.termination_terms", "['out_of_range', 'time_out']", "['time_out']"), (P, T)
    ),
    Plant("one term less than recorded", OneTermLess, ("recorded with num_terms 4, the engine has 3",), (R,)),
    everywhere("no end is told", frames(lambda one: setattr(one, "any_ended", False)), "any_ended", "True", "False"),
    everywhere("seeds once", lost("set_seeds", lambda asked: len(asked) > 1), "observation"),
    everywhere("seeds of all", asking("set_seeds", lambda one: replace(one, mask=b"")), "observation"),
    everywhere("options once", lost("set_reset_options", lambda asked: len(asked) > 1), "observation"),
    everywhere("a late autoreset", LateAutoreset, "observation"),
    everywhere("clipped actions", sending(lambda _, actions: np.clip(actions, -1, 1)), "exchange"),
    everywhere("other action bounds", described(action=_wider), "spec.action.high", "1.0", "2.0", "exchange 0"),
    everywhere("other observation bounds", described(observation=_bounded), "spec.observation."),
    everywhere("another step_s", described(step_s=lambda spec: 0.05), "spec.step_s", "0.02", "0.05"),
    everywhere(
        "another max_episode_steps",
        described(attributes=lambda spec: {**spec.attributes, "max_episode_steps": 41}),
        "spec.attributes.max_episode_steps",
        "40",
        "41",
    ),
    everywhere(
        "an attribute more",
        described(attributes=lambda spec: {**spec.attributes, "fov": 60}),
        "spec.attributes.fov",
        "absent",
        "60",
    ),
    everywhere(
        "other names",
        described(observation_names=lambda spec: tuple(reversed(spec.observation_names))),
        "spec.observation_names",
    ),
    everywhere("a dead counter", DeadCounter, "out_of_bounds", "0"),
    everywhere("state kept", KeptState, "observation"),
    everywhere("a step raises", fails(AT, RuntimeError("planted")), "RuntimeError: planted", "exchange 97"),
    everywhere("a send raises", raising(KeyError("planted"), "send"), "KeyError", "exchange 97"),
    everywhere("a step fails", fails(AT, EngineFailed("planted")), "planted", "exchange 97"),
    everywhere("the peer dies", fails(AT, PeerDied("planted")), "planted", "exchange 97"),
    everywhere("seeds raise", raising(RuntimeError("planted"), "call"), "RuntimeError"),
    by_parity("actions are changed", ChangedActions, "actions_passed of env 15"),
    by_parity("actions in place", halving(lambda to, actions: actions is to.actions), "observation"),
    by_parity(
        "actions that are not contiguous", halving(lambda _, actions: not actions.flags.c_contiguous), "observation"
    ),
    by_parity("actions in another byte order", halving(lambda _, actions: not actions.dtype.isnative), "observation"),
    by_parity("actions of float64", sending(_cut_to_float32), "observation"),
    by_parity("views overwritten", ViewsOverwritten, "views_kept", "True", "False"),
    by_parity("only step_wait", OnlyWaitedFor, "observation of env 15 at [0]"),
    by_parity("a call beside a step", CallsBeside, "observation of env 0 at [0]"),
    by_parity("all envs end in one step", AllEnded, "of env 15", steps=None),
    by_parity("a second client", SecondClient, "typed_call", "action_size=2", "action_size=3"),
    by_parity("the first reset of the next client", NextDriver, "observation[of one env]", "(reset, frames)"),
    by_parity("a step by another thread", OtherThread, "observation of env 0 at [0]"),
    by_parity("a pixel that is rendered", RenderedPixel, "render", "render,"),
    by_parity("no streams", NoStreams, "capabilities.streams", "True", "False"),
    by_parity("seeds of 16 bits", _low_seeds(16), "observation"),
    by_parity("seeds of 32 bits", _low_seeds(32), "observation"),
    by_parity("seeds of 0", asking("set_seeds", _no_zeros), "observation"),
    by_parity("seeds given again", lost("set_seeds", _had_their_seeds), "observation"),
    by_parity("clipped noise", asking("set_reset_options", _clipped), "observation"),
    by_parity("options lost", asking("set_reset_options", lambda one: replace(one, options_json="")), "observation"),
    Plant("close raises", raising(RuntimeError("planted"), "close"), ("RuntimeError: planted", "closing"), (P,)),
    Plant("opening raises", _raise_at_once, ("path 'planted' cannot be opened: RuntimeError: planted",), (P,)),
)
