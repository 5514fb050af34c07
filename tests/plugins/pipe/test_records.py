"""Records over a socket: what `calls.pipe.Pipe` promises, and what hostile bytes can do."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    ClosedError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
    TransportError,
)
from lucky_transport_pipe.duplex import SocketDuplex
from lucky_transport_pipe.record_pipe import LARGEST_RECORD, RecordPipe
from lucky_transport_pipe.windows import MessageDuplex

SECOND_NS = 1_000_000_000
Ends = tuple[RecordPipe, RecordPipe]


def duplexes() -> tuple[SocketDuplex, SocketDuplex]:
    one, other = socket.socketpair()
    return SocketDuplex(one, "the other"), SocketDuplex(other, "the one")


@pytest.fixture
def ends() -> Generator[Ends]:
    one, other = map(RecordPipe, duplexes())
    yield one, other
    one.close()
    other.close()


def pop_all(pipe: RecordPipe, out_of: bytes | None = None) -> None:
    """Pop until there is an error."""
    while True:
        pipe.wait(SECOND_NS)
        record = pipe.try_pop()
        assert record is None or out_of is None or record in out_of


def test_records_come_whole_and_in_order(ends: Ends) -> None:
    one, other = ends
    records = [b"a", b"x" * 100_000, b"", b"zz"]
    with pytest.raises(SpecError, match="a record of 0 bytes"):
        one.try_push(records.pop(2))
    for record in records:
        assert one.try_push(record)
    found: list[bytes | None] = []
    while len(found) < len(records):
        assert other.wait(SECOND_NS)
        found.append(other.try_pop())
    assert found == records
    assert other.try_pop() is None


def test_a_record_that_can_never_fit_is_refused(ends: Ends) -> None:
    with pytest.raises(SpecError, match="expected 1 to"):
        ends[0].try_push(b"x" * (LARGEST_RECORD + 1))


def test_what_the_socket_does_not_take_counts_as_no_room_until_it_has_left(ends: Ends) -> None:
    one, other = ends
    record = b"x" * LARGEST_RECORD
    pushed = 0
    while one.try_push(record):
        pushed += 1
    assert not one.wait_writable(len(record), 1000)
    found = 0
    while found < pushed:
        one.wait(0)  # whoever waits sends the rest
        if other.wait(SECOND_NS // 100):
            assert other.try_pop() == record
            found += 1
    assert one.wait_writable(len(record), SECOND_NS)
    assert one.try_push(record)


def test_a_wait_ends_at_its_timeout_when_interrupted_and_when_closed(ends: Ends) -> None:
    one, _ = ends
    assert not one.wait(1000)
    one.interrupt()
    assert not one.wait(60 * SECOND_NS)
    threading.Timer(0.05, one.close).start()
    with pytest.raises(ClosedError):
        one.wait(60 * SECOND_NS)
    for use in (one.try_pop, one.fileno, one.arm, lambda: one.try_push(b"x"), lambda: one.wait(0)):
        with pytest.raises(ClosedError):
            use()


def test_the_peers_end_is_told_after_what_it_wrote(ends: Ends) -> None:
    one, other = ends
    one.try_push(b"last")
    one.close()
    assert other.wait(SECOND_NS)
    assert other.try_pop() == b"last"
    with pytest.raises(PeerDied):
        other.wait(SECOND_NS)


def test_the_descriptor_turns_readable_with_a_record_and_with_the_end(ends: Ends) -> None:
    one, other = ends
    poller = select.poll()
    poller.register(other.fileno(), select.POLLIN)
    assert not other.arm()
    assert not poller.poll(0)
    one.try_push(b"x")
    assert poller.poll(5000)
    assert other.arm()
    assert other.try_pop() == b"x"
    assert not other.arm()
    one.close()
    assert poller.poll(5000)
    with pytest.raises(PeerDied):
        other.arm()


@pytest.mark.parametrize("length", [0, LARGEST_RECORD + 1, 2**32 - 1])
def test_a_length_that_no_honest_peer_sends_is_an_error(length: int) -> None:
    duplex, peer = duplexes()
    pipe = RecordPipe(duplex)
    peer.send(struct.pack("<I", length) + b"x" * 10, Deadline(1))
    with pytest.raises(RemoteProtocolError, match=f"a record of {length} bytes"):
        pop_all(pipe)
    pipe.close()
    peer.close()


@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_are_records_or_an_error(data: bytes, cut: int) -> None:
    duplex, peer = duplexes()
    pipe = RecordPipe(duplex)
    for part in (data[:cut], data[cut:]):
        if part:
            peer.send(part, Deadline(1))
    peer.close()
    try:
        with pytest.raises(TransportError):  # at the latest, that the peer has gone
            pop_all(pipe, out_of=data)
    finally:
        pipe.close()


# -- bytes ------------------------------------------------------------------------------------------------------------


def test_a_peer_that_takes_nothing_is_told_by_the_deadline() -> None:
    one, other = duplexes()
    with pytest.raises(PeerTimeout, match=r"bytes within 0\.05 s"):
        one.send(b"x" * (64 << 20), Deadline(0.05))
    one.close()
    other.close()


def test_two_sides_that_both_write_before_they_read_both_get_done() -> None:
    one, other = duplexes()
    data = b"x" * (8 << 20)

    def write_and_read(end: SocketDuplex) -> int:
        end.send(data, Deadline(20))
        received = 0
        while received < len(data):
            received += len(end.receive(Deadline(20)))
        return received

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write_and_read, (one, other))) == [len(data)] * 2
    with pytest.raises(PeerTimeout):
        one.receive(Deadline(0))
    one.close()
    other.close()


class _Messages:
    """What `multiprocessing.connection` hands out on Windows, in memory: messages as they are, without a header."""

    def __init__(self) -> None:
        self.incoming: list[bytes] = []
        self.sent: list[bytes] = []
        self.ended = False

    def send_bytes(self, data: bytes) -> None:
        if self.ended:
            raise BrokenPipeError
        self.sent.append(data)

    def poll(self, timeout: float) -> bool:
        if not self.incoming and not self.ended:
            time.sleep(timeout)
        return bool(self.incoming) or self.ended

    def recv_bytes(self) -> bytes:
        if not self.incoming:
            raise EOFError
        return self.incoming.pop(0)

    def close(self) -> None:
        self.ended = True


def test_messages_of_a_windows_pipe_are_bytes_as_they_are() -> None:
    connection: Any = _Messages()
    duplex = MessageDuplex(connection, "Unity")
    duplex.send(b"run x\n", Deadline(1))
    assert connection.sent == [b"run x\n"]
    connection.incoming += [b"SUCC", b"ESS\r\n"]
    assert duplex.receive(Deadline(1)) + duplex.receive(Deadline(1)) == b"SUCCESS\r\n"
    with pytest.raises(PeerTimeout):
        duplex.receive(Deadline(0.01))
    connection.ended = True
    for use in (lambda: duplex.receive(Deadline(1)), lambda: duplex.send(b"x", Deadline(1))):
        with pytest.raises(PeerDied, match="Unity closed the pipe"):
            use()
    duplex.close()
    with pytest.raises(ClosedError):
        duplex.receive(Deadline(1))
