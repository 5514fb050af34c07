"""Other ways to move the bytes of a step between two Python processes: a raw unix socket, and iceoryx2.

A request is a number, the actions and one control byte per env; an answer is the request's number, observations,
rewards and both flags. Each way is used as its documentation has it: buffers are reused, and no message is copied more
often than its interface asks for. Started as a program, this is the answering process.
"""

import contextlib
import ctypes
import json
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lucky_transport.errors import PeerTimeout, RemoteProtocolError
from lucky_transport.process import ChildProcess, python_command, unique_name
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, measure_loop

PEERS = ("unix-socket", "iceoryx2")

_NUMBER = struct.Struct("<q")
_PATIENCE_S = 20.0
_PREPARED = 0.5  # every observation
_BUFFER_BYTES = 4 << 20  # asked of the kernel, which grants what its limits allow
_HELLO = _NUMBER.pack(0)


@dataclass(frozen=True)
class Message:
    """What travels in one cell. copies: the engine copies a prepared frame for each answer."""

    num_envs: int
    obs_size: int
    act_size: int
    copies: bool
    rate_hz: int | None = None

    @property
    def request_bytes(self) -> int:
        return _NUMBER.size + self.num_envs * (4 * self.act_size + 1)

    @property
    def answer_bytes(self) -> int:
        return _NUMBER.size + self.num_envs * (4 * self.obs_size + 6)

    def observations(self, answer: Any) -> Any:
        return answer[_NUMBER.size : _NUMBER.size + 4 * self.num_envs * self.obs_size].view(np.float32)


class RawSocket:
    """An end of a pair of stream sockets, both sides blocking, with a buffer each way."""

    def __init__(self, address: str, largest: int) -> None:
        self._socket = socket.socket(fileno=int(address))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(_PATIENCE_S), 0))
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self._out: Any = np.zeros(largest, np.uint8)
        self._in: Any = np.zeros(largest, np.uint8)

    def blank(self, nbytes: int) -> Any:
        self._message = self._out[:nbytes]
        return self._message

    def send(self) -> None:
        self._socket.sendall(self._message)

    def receive(self, nbytes: int) -> Any:
        message, got = self._in[:nbytes], 0
        while got < nbytes:
            more = self._socket.recv_into(message[got:])
            if not more:
                raise EOFError("the other end of the socket is gone")
            got += more
        return message

    def close(self) -> None:
        self._socket.close()


class Iceoryx:
    """An end of two services, one each way, polled as iceoryx2's own benchmark does.

    address: the prefix of the pair's files, the directory of the rest, and which service is written.
    """

    def __init__(self, address: str, largest: int) -> None:
        import iceoryx2

        iox: Any = iceoryx2  # a compiled module without type hints
        self._prefix, directory, names = address.split("|")
        self._largest, self._views, self._sample = largest, dict[int, Any](), None
        iox.set_log_level(iox.LogLevel.Error)
        config = iox.config.default()
        config.global_cfg.prefix, config.global_cfg.root_path = iox.FileName.new(self._prefix), iox.Path.new(directory)
        builder = iox.NodeBuilder.new().config(config)
        self._node = builder.signal_handling_mode(iox.SignalHandlingMode.Disabled).create(iox.ServiceType.Ipc)

        def service(name: str) -> Any:
            builder = self._node.service_builder(iox.ServiceName.new(name)).publish_subscribe(iox.Slice[ctypes.c_uint8])
            builder = builder.max_publishers(1).max_subscribers(1).subscriber_max_buffer_size(2)
            return builder.subscriber_max_borrowed_samples(2).enable_safe_overflow(False).open_or_create()

        written, read = map(service, names.split(","))
        self._publisher = written.publisher_builder().initial_max_slice_len(largest).max_loaned_samples(1).create()
        self._subscriber = read.subscriber_builder().create()

    def blank(self, nbytes: int) -> Any:
        self._loan = self._publisher.loan_slice_uninit(nbytes)
        return self._view(self._loan.payload_ptr)[:nbytes]

    def send(self) -> None:
        if not self._loan.assume_init().send():
            raise EOFError("no iceoryx2 subscriber is left")

    def receive(self, nbytes: int) -> Any:
        if self._sample is not None:
            self._sample.delete()
        look, end = self._subscriber.receive, time.monotonic() + _PATIENCE_S
        while (found := self._found(look)) is None:
            if time.monotonic() > end:
                raise PeerTimeout(f"iceoryx2: nothing came within {_PATIENCE_S:g} s")
        self._sample = found
        return self._view(found.payload_ptr)[:nbytes]

    @staticmethod
    def _found(look: Any) -> Any:
        for _ in range(1000):  # looks between two at the clock
            if (found := look()) is not None:
                return found
        return None

    def _view(self, address: int) -> Any:
        if address not in self._views:
            chunk: Any = (ctypes.c_uint8 * self._largest).from_address(address)
            self._views[address] = np.frombuffer(chunk, np.uint8)
        return self._views[address]

    def close(self) -> None:
        for one in (self._sample, self._subscriber, self._publisher):
            if one is not None:
                one.delete()
        self._views.clear()
        del self._node
        for left in Path("/dev/shm").glob(f"{self._prefix}*"):  # a segment for the node's own use stays after it
            left.unlink(missing_ok=True)


def end_of(name: str, address: str, largest: int) -> Any:
    """Return an end of a peer."""
    return {"unix-socket": RawSocket, "iceoryx2": Iceoryx}[name](address, largest)


def measure_peer(name: str, messages: Sequence[Message], effort: Effort) -> list[Measurement]:
    """Return one measurement per message, of a fresh pair of processes, both gone then.

    Raises RemoteProtocolError when an answer is not the one that was due.
    """
    largest = max(max(one.request_bytes, one.answer_bytes) for one in messages)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lucky_peers_"))
        if name == "unix-socket":
            ours, theirs = socket.socketpair()
            addresses, given = (str(ours.detach()), str(theirs.fileno())), [theirs.fileno()]
        else:
            shared, theirs, given = f"{unique_name()}_|{folder}/", socket.socket(), []
            addresses = f"{shared}|requests,answers", f"{shared}|answers,requests"
        wire = stack.enter_context(closing(end_of(name, addresses[0], largest)))
        command = python_command(__name__, name, addresses[1], json.dumps([astuple(one) for one in messages]))
        server = ChildProcess(f"server of {name}", command, cwd=os.getcwd(), pass_fds=given)
        theirs.close()
        stack.callback(server.stop)
        wire.receive(len(_HELLO))
        return [_measured(wire, one, effort, server.pid) for one in messages]


def _measured(wire: Any, message: Message, effort: Effort, pid: int) -> Measurement:
    number, answer, place = 0, np.zeros(0, np.uint8), slice(_NUMBER.size, -message.num_envs)

    def step(actions: Any) -> int:
        """Copy the actions once, as a step of ours does."""
        nonlocal number, answer
        number += 1
        request = wire.blank(message.request_bytes)
        request[place] = actions.reshape(-1).view(np.uint8)
        _NUMBER.pack_into(request, 0, number)
        wire.send()
        answer = wire.receive(message.answer_bytes)
        return _NUMBER.unpack_from(answer)[0]

    def at(found: int) -> int:
        seen = message.observations(answer)
        if found != number or (message.copies and not seen.item(0) == seen.item(-1) == _PREPARED):
            raise RemoteProtocolError(f"answer {found} with {seen.item(0)} came where answer {number} was due")
        return found

    actions = np.full((message.num_envs, message.act_size), 0, np.float32)  # written, as those of our own rows
    look = Look("its number, and its first and last observation", at)
    found = measure_loop(step, actions, effort, pid, look, message.rate_hz)
    _NUMBER.pack_into(wire.blank(message.request_bytes), 0, -1)  # on to the next message
    wire.send()
    return found


def serve(name: str, address: str, given: str) -> None:
    """Answer all messages, one after the other."""
    messages = [Message(*one) for one in json.loads(given)]
    wire = end_of(name, address, max(max(one.request_bytes, one.answer_bytes) for one in messages))
    wire.blank(len(_HELLO))[:] = np.frombuffer(_HELLO, np.uint8)
    wire.send()
    for message in messages:
        frame = np.zeros(message.answer_bytes, np.uint8)
        message.observations(frame)[:] = _PREPARED
        while (number := _NUMBER.unpack_from(wire.receive(message.request_bytes))[0]) >= 0:
            answer = wire.blank(message.answer_bytes)
            if message.copies:
                answer[_NUMBER.size :] = frame[_NUMBER.size :]
            _NUMBER.pack_into(answer, 0, number)
            wire.send()


if __name__ == "__main__":
    serve(*sys.argv[1:])
