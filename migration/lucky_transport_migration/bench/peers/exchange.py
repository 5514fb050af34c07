"""Measuring one peer once: a fresh pair of processes and all its cells, every answer's number checked meanwhile."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import PeerDied, RemoteProtocolError, TransportError
from lucky_transport.process import python_command
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, measure_loop
from lucky_transport_migration.bench.peers.kinds import find_wire
from lucky_transport_migration.bench.peers.wire import NUMBER, PREPARED, Bytes, Message, Wire
from lucky_transport_migration.bench.processes import ServerProcess

__all__ = ["measure_exchanges"]

_FLOAT = struct.Struct("<f")
_PROGRAM = "lucky_transport_migration.bench.peers.server_program"


class _Client:
    """Makes exchanges of one message's size, numbered from 1."""

    def __init__(self, wire: Wire, message: Message) -> None:
        self._wire, self._message = wire, message
        self._actions = slice(NUMBER.size, NUMBER.size + message.action_bytes)
        self.number = 0
        self.answer: Bytes = np.zeros(0, np.uint8)

    def step(self, actions: NDArray[Any]) -> int:
        """Send `actions`, return the number of the answer; the actions are copied once, as a step of ours does."""
        wire, message = self._wire, self._message
        self.number += 1
        request = wire.blank(message.request_bytes)
        request[self._actions] = actions.reshape(-1).view(np.uint8)
        NUMBER.pack_into(request, 0, self.number)
        wire.send()
        self.answer = wire.receive(message.answer_bytes)
        (number,) = NUMBER.unpack_from(self.answer)
        return number

    def check(self, actions: NDArray[Any]) -> None:
        """Make one exchange and look at all that it brings. Raises RemoteProtocolError."""
        if self.step(actions) != self.number:
            raise RemoteProtocolError(f"answer {self.number} is that of another request: exchanges were lost")
        seen = self.answer[NUMBER.size : NUMBER.size + self._message.observation_bytes].view(np.float32)
        if self._message.copies and not (seen == PREPARED).all():
            raise RemoteProtocolError(f"observations hold other values than {PREPARED}: an answer was torn")

    def look(self) -> Look:
        """Return what is looked at in every answer: its number, and both ends of a frame that the server copies."""
        if not self._message.copies:
            return Look("its number", lambda number: number)
        last = NUMBER.size + self._message.observation_bytes - _FLOAT.size

        def at(number: int) -> int:
            if not _FLOAT.unpack_from(self.answer, NUMBER.size) == _FLOAT.unpack_from(self.answer, last) == (PREPARED,):
                raise RemoteProtocolError(f"observations hold other values than {PREPARED}: an answer was torn")
            return number

        return Look("its number, and its first and last observation", at)

    def leave(self) -> None:
        """Tell the server that no more of these follow."""
        request = self._wire.blank(self._message.request_bytes)
        NUMBER.pack_into(request, 0, -1)
        self._wire.send()


def measure_exchanges(
    name: str,
    cells: Sequence[tuple[Message, float | None]],
    effort: Effort,
) -> list[Measurement]:
    """Return one measurement per cell of (message, rate or None for full rate); all processes have ended then.

    Raises MissingExtra, NotReachable when the server does not start, PeerDied when it ends too early, PeerTimeout, and
    RemoteProtocolError when an answer is not the one that was due.
    """
    messages = [message for message, _ in cells]
    with _connected(name, messages) as (wire, pid):
        return [_measure(_Client(wire, message), message, rate, effort, pid) for message, rate in cells]


def _measure(client: _Client, message: Message, rate_hz: float | None, effort: Effort, pid: int) -> Measurement:
    actions = np.full((message.num_envs, message.act_size), 0, np.float32)  # written, as those of our own rows
    try:
        client.check(actions)
        found = measure_loop(client.step, actions, effort, pid, client.look(), rate_hz)
        client.check(actions)
        client.leave()
    except TransportError:
        raise  # some of them are OSErrors too
    except (EOFError, OSError) as error:
        raise PeerDied(f"the server ended in the middle of a measurement: {error}", backend="bench") from error
    return found


@contextmanager
def _connected(name: str, messages: Sequence[Message]) -> Iterator[tuple[Wire, int]]:
    """A running server, its client's end and its process id."""
    largest = max(max(one.request_bytes, one.answer_bytes) for one in messages)
    with tempfile.TemporaryDirectory(prefix="lucky_peers_") as directory:
        offer = find_wire(name).offer(Path(directory), largest)
        cells = json.dumps([asdict(one) for one in messages])
        command = python_command(_PROGRAM, name, offer.address, cells)
        with closing(offer.wire), ServerProcess(f"of {name}", command, offer.descriptors) as server:
            yield offer.wire, server.pid
