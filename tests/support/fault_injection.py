"""A transport that passes everything on except the faults it is told to inject, to prove that a comparison finds them.

    faulty = FaultyTransport(transport, FaultSpec(Fault.BIT, "SceneService/GetSceneInfo"))
    faulty = FaultyTransport(transport, FaultSpec(Fault.BIT, STEPS, at=7, env=1))

The faults:

    bit         one bit of the response, of a stream's item or of a frame's observations is flipped
    reordered   two neighbouring items of a stream change places
    missing     an item of a stream never comes
    status      the call ends with another error (UnknownName), whatever the engine answered
    detail      a call that fails by itself fails with another text
    slow        the answer comes later, or not before the deadline
    crash       the peer is dead, from then on for every call and step
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, TransportError, UnknownName
from lucky_transport.messages.methods import Method
from lucky_transport.transport import Frame, Stream, Transport
from tests.support.bit_flip import flip_array, flip_message

__all__ = ["STEPS", "Fault", "FaultSpec", "FaultyTransport"]

#: The "method" of a fault in the stepping path.
STEPS = "steps"


class Fault(StrEnum):
    """What can be injected; see the module."""

    BIT = "bit"
    REORDERED = "reordered"
    MISSING = "missing"
    STATUS = "status"
    DETAIL = "detail"
    SLOW = "slow"
    CRASH = "crash"


_OF_STREAMS = {Fault.REORDERED, Fault.MISSING}
_OF_STEPS = {Fault.BIT, Fault.STATUS, Fault.SLOW, Fault.CRASH}


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One fault. `method`: a full or short name, a shell pattern of such, or STEPS for `send` and `recv`.

    at: which of their calls or exchanges it hits, from 0; None = each. item: at which item of a stream. path:
    in which field a bit is changed ("" = the first that holds something). env: in whose row of a frame. delay_s: how
    much later a slow one answers.
    """

    fault: Fault
    method: str
    at: int | None = 0
    item: int = 0
    path: str = ""
    env: int = 0
    delay_s: float = 0.2

    def __post_init__(self) -> None:
        if self.method == STEPS and self.fault not in _OF_STEPS:
            raise ValueError(
                f"{self.fault} cannot be injected into steps; expected one of {', '.join(sorted(_OF_STEPS))}"
            )

    def fits(self, method: Method) -> bool:
        """True where this is a fault of `method`."""
        if self.fault in _OF_STREAMS and method.stream is None:
            return False
        short = method.name.rpartition(".")[2]
        return fnmatchcase(method.name, self.method) or fnmatchcase(short, self.method)


class _Armed:
    """A fault, and how many calls it has seen."""

    def __init__(self, fault_spec: FaultSpec) -> None:
        self.fault_spec = fault_spec
        self._calls = itertools.count()

    def hits(self) -> bool:
        """Count a call; True when the fault is due."""
        return next(self._calls) == self.fault_spec.at or self.fault_spec.at is None


class _Peer:
    """What all calls over one transport share: its name, and whether it has crashed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._crashed = False

    def check_alive(self) -> None:
        """Raise PeerDied once it has crashed."""
        if self._crashed:
            raise PeerDied("the peer is dead: an injected crash", backend=self.name)

    def inject(self, fault_spec: FaultSpec, what: str, deadline: Deadline | None) -> None:
        """Do what a fault does before an answer: wait, or raise instead of it."""
        if fault_spec.fault is Fault.SLOW:
            time.sleep(fault_spec.delay_s if deadline is None else min(fault_spec.delay_s, deadline.remaining_s))
            if deadline is not None and deadline.expired:
                raise deadline_error(what, deadline.timeout_s, self.name)
        elif fault_spec.fault is Fault.STATUS:
            raise UnknownName(f"{what}: an injected status", backend=self.name)
        elif fault_spec.fault is Fault.CRASH:
            self._crashed = True
            self.check_alive()


class FaultyTransport(Transport):
    """`inner` with faults; closing it closes `inner`."""

    def __init__(self, inner: Transport, *faults: FaultSpec) -> None:
        self.name, self.spec = inner.name, inner.spec
        self.capabilities = replace(inner.capabilities, async_envs=False)  # faults are of whole steps
        self.actions, self.observation_slots = inner.actions, inner.observation_slots
        self._inner = inner
        self._peer = _Peer(inner.name)
        self._steps = [_Armed(fault_spec) for fault_spec in faults if fault_spec.method == STEPS]
        self._calls = [_Armed(fault_spec) for fault_spec in faults if fault_spec.method != STEPS]

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._peer.check_alive()
        self._inner.send(actions, control)
        self.out_of_bounds = self._inner.out_of_bounds

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._peer.check_alive()
        due = [armed.fault_spec for armed in self._steps if armed.hits()]
        for fault_spec in due:
            self._peer.inject(fault_spec, "the step", deadline)
        frame = self._inner.recv(deadline)
        for fault_spec in due:
            if fault_spec.fault is Fault.BIT:
                frame = _flipped(frame, fault_spec.env)
        return frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        due = self._due(method)
        for fault_spec in due:
            self._peer.inject(fault_spec, method.name, deadline)
        with _injected_detail(*due):
            response = self._inner.call(method, request, deadline)
        for fault_spec in due:
            if fault_spec.fault is Fault.BIT:
                response = flip_message(response, fault_spec.path)
        return response

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        due = self._due(method)
        stream = self._inner.stream(method, request, deadline, copy=copy)
        for fault_spec in due:
            stream = _FaultyStream(stream, fault_spec, self._peer, method.name, deadline)
        return stream

    def implements(self, method: Method) -> bool | None:
        return self._inner.implements(method)

    def close(self) -> None:
        self._inner.close()

    def _due(self, method: Method) -> list[FaultSpec]:
        """Return the faults of this call."""
        self._peer.check_alive()
        return [armed.fault_spec for armed in self._calls if armed.fault_spec.fits(method) and armed.hits()]


class _FaultyStream(Stream):
    """A stream with one fault at one of its items."""

    def __init__(self, inner: Stream, fault_spec: FaultSpec, peer: _Peer, name: str, deadline: Deadline | None) -> None:
        self._inner = inner
        self._fault_spec = fault_spec
        self._peer = peer
        self._name = name
        self._deadline = deadline
        self._items = itertools.count()
        self._kept: list[Any] = []

    def __next__(self) -> Any:
        self._peer.check_alive()
        is_due = next(self._items) == self._fault_spec.item
        if self._kept:
            return self._kept.pop()
        if is_due:
            self._peer.inject(self._fault_spec, self._name, self._deadline)
        item = self._receive()
        if not is_due:
            return item
        match self._fault_spec.fault:
            case Fault.BIT:
                return flip_message(item, self._fault_spec.path)
            case Fault.MISSING:
                return self._receive()
            case Fault.REORDERED:
                self._kept.append(item)
                return self._receive()
            case _:
                return item

    def _receive(self) -> Any:
        with _injected_detail(self._fault_spec):
            item = next(self._inner)
        self.dropped = self._inner.dropped
        return item

    def cancel(self) -> None:
        if "_inner" in self.__dict__:  # it may be collected half made
            self._inner.cancel()


@contextmanager
def _injected_detail(*due: FaultSpec) -> Generator[None]:
    """Give an error another text where that is due."""
    try:
        yield
    except TransportError as error:
        if any(fault_spec.fault is Fault.DETAIL for fault_spec in due):
            error.args = (f"{error} (an injected detail)",)
        raise


def _flipped(frame: Frame, env: int) -> Frame:
    shown = flip_array(frame.observations, env)
    rest = (frame.rewards, frame.terminated, frame.truncated, frame.signals, frame.seq, frame.any_ended)
    return Frame(shown, *rest)
