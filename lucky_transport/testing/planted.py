"""Faults on purpose: a transport that passes everything on but what is planted, to prove that a comparison finds it.

    liar = PlantedTransport(transport, Plant(Fault.BIT, "SceneService/GetSceneInfo"))
    liar = PlantedTransport(transport, Plant(Fault.BIT, STEPS, at=7, env=1), Plant(Fault.MISSING, "*/StreamTelemetry"))

    bit         one bit of the response, of a stream's item or of a frame's observations is another one
    reordered   two neighbouring items of a stream change places
    missing     an item of a stream never comes
    status      the call ends with another error (UnknownName), whatever the engine said
    detail      a call that fails by itself fails with another text
    slow        the answer comes later, or not before the deadline
    crash       the peer is dead, from then on for every call and step

Rule 1: a plant strikes at one call of its methods, or at every one; everything else passes as it is.
Rule 2: what is passed on is the inner transport's own object; only what a plant changes is a copy.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, TransportError, UnknownName
from lucky_transport.messages.methods import Method
from lucky_transport.testing.bit_flip import flip_array, flip_message
from lucky_transport.transport import Frame, Stream, Transport

__all__ = ["STEPS", "Fault", "Plant", "PlantedTransport"]

#: The "method" of a plant in the stepping path.
STEPS = "steps"


class Fault(StrEnum):
    """What can be planted; see the module."""

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
class Plant:
    """One fault. `method`: a full or short name, a shell pattern of such, or STEPS for `send` and `recv`.

    at: at which of their calls or exchanges it strikes, from 0; None = at each. item: at which item of a stream. path:
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
                f"{self.fault} cannot be planted into steps; expected one of {', '.join(sorted(_OF_STEPS))}"
            )

    def fits(self, method: Method) -> bool:
        """True where this is planted into `method`."""
        if self.fault in _OF_STREAMS and method.stream is None:
            return False
        short = method.name.rpartition(".")[2]
        return fnmatchcase(method.name, self.method) or fnmatchcase(short, self.method)


class _Armed:
    """A plant, and how often it could have struck."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self._calls = itertools.count()

    def strikes(self) -> bool:
        """Count a call; True when it is one that the fault is for."""
        return next(self._calls) == self.plant.at or self.plant.at is None


class _Peer:
    """What all calls over one transport share: its name, and whether a crash has struck."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._crashed = False

    def check_alive(self) -> None:
        """Raise PeerDied once a crash has struck."""
        if self._crashed:
            raise PeerDied("the peer is dead: a planted crash", backend=self.name)

    def hinder(self, plant: Plant, what: str, deadline: Deadline | None) -> None:
        """Do what a fault does before an answer: wait, or raise instead of it."""
        if plant.fault is Fault.SLOW:
            time.sleep(plant.delay_s if deadline is None else min(plant.delay_s, deadline.remaining_s))
            if deadline is not None and deadline.expired:
                raise deadline_error(what, deadline.timeout_s, self.name)
        elif plant.fault is Fault.STATUS:
            raise UnknownName(f"{what}: a planted status", backend=self.name)
        elif plant.fault is Fault.CRASH:
            self._crashed = True
            self.check_alive()


class PlantedTransport(Transport):
    """`inner` with faults; closing it closes `inner`."""

    def __init__(self, inner: Transport, *plants: Plant) -> None:
        self.name, self.spec, self.capabilities = inner.name, inner.spec, inner.capabilities
        self.actions = inner.actions
        self._inner = inner
        self._peer = _Peer(inner.name)
        self._steps = [_Armed(plant) for plant in plants if plant.method == STEPS]
        self._calls = [_Armed(plant) for plant in plants if plant.method != STEPS]

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._peer.check_alive()
        self._inner.send(actions, control)
        self.out_of_bounds = self._inner.out_of_bounds

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._peer.check_alive()
        due = [armed.plant for armed in self._steps if armed.strikes()]
        for plant in due:
            self._peer.hinder(plant, "the step", deadline)
        frame = self._inner.recv(deadline)
        for plant in due:
            if plant.fault is Fault.BIT:
                frame = _flipped(frame, plant.env)
        return frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        due = self._due(method)
        for plant in due:
            self._peer.hinder(plant, method.name, deadline)
        with _retelling(*due):
            response = self._inner.call(method, request, deadline)
        for plant in due:
            if plant.fault is Fault.BIT:
                response = flip_message(response, plant.path)
        return response

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        due = self._due(method)
        stream = self._inner.stream(method, request, deadline, copy=copy)
        for plant in due:
            stream = _PlantedStream(stream, plant, self._peer, method.name, deadline)
        return stream

    def implements(self, method: Method) -> bool | None:
        return self._inner.implements(method)

    def close(self) -> None:
        self._inner.close()

    def _due(self, method: Method) -> list[Plant]:
        """Return the plants that strike at this call."""
        self._peer.check_alive()
        return [armed.plant for armed in self._calls if armed.plant.fits(method) and armed.strikes()]


class _PlantedStream(Stream):
    """A stream with one fault at one of its items."""

    def __init__(self, inner: Stream, plant: Plant, peer: _Peer, name: str, deadline: Deadline | None) -> None:
        self._inner = inner
        self._plant = plant
        self._peer = peer
        self._name = name
        self._deadline = deadline
        self._items = itertools.count()
        self._kept: list[Any] = []

    def __next__(self) -> Any:
        self._peer.check_alive()
        strikes = next(self._items) == self._plant.item
        if self._kept:
            return self._kept.pop()
        if strikes:
            self._peer.hinder(self._plant, self._name, self._deadline)
        item = self._receive()
        if not strikes:
            return item
        match self._plant.fault:
            case Fault.BIT:
                return flip_message(item, self._plant.path)
            case Fault.MISSING:
                return self._receive()
            case Fault.REORDERED:
                self._kept.append(item)
                return self._receive()
            case _:
                return item

    def _receive(self) -> Any:
        with _retelling(self._plant):
            item = next(self._inner)
        self.dropped = self._inner.dropped
        return item

    def cancel(self) -> None:
        if "_inner" in self.__dict__:  # it may be collected half made
            self._inner.cancel()


@contextmanager
def _retelling(*due: Plant) -> Generator[None]:
    """Give an error another text where that is planted."""
    try:
        yield
    except TransportError as error:
        if any(plant.fault is Fault.DETAIL for plant in due):
            error.args = (f"{error} (a planted detail)",)
        raise


def _flipped(frame: Frame, env: int) -> Frame:
    shown = flip_array(frame.observations, env)
    rest = (frame.rewards, frame.terminated, frame.truncated, frame.signals, frame.seq, frame.any_ended)
    return Frame(shown, *rest)
