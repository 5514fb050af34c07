"""Bytes over a connection: nothing stands still, and every wait ends."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout
from lucky_transport_pipe.connection import PipeConnection
from tests.support.waiting import PATIENCE_S


def connections() -> tuple[PipeConnection, PipeConnection]:
    one, other = socket.socketpair()
    return PipeConnection(one, "the other"), PipeConnection(other, "the one")


def test_what_the_peer_wrote_before_it_closed_is_still_read() -> None:
    one, other = connections()
    one.send(b"last", Deadline(1))
    one.close()
    assert other.receive(Deadline(1)) == b"last"
    with pytest.raises(PeerDied, match="the one closed the pipe or ended"):
        other.receive(Deadline(1))
    other.close()


def test_closing_ends_a_wait_of_another_thread_and_refuses_everything_after_it() -> None:
    one, other = connections()
    threading.Timer(0.05, one.close).start()
    with pytest.raises(ClosedError):
        one.receive(Deadline(PATIENCE_S))
    for use in (lambda: one.receive(Deadline(0)), lambda: one.send(b"x", Deadline(0))):
        with pytest.raises(ClosedError):
            use()
    other.close()


def test_a_peer_that_takes_nothing_is_told_by_the_deadline() -> None:
    one, other = connections()
    with pytest.raises(PeerTimeout, match=r"bytes within 0\.05 s"):
        one.send(b"x" * (64 << 20), Deadline(0.05))
    one.close()
    other.close()


def test_two_sides_that_both_write_before_they_read_both_get_done() -> None:
    one, other = connections()
    data = b"x" * (8 << 20)

    def write_and_read(end: PipeConnection) -> int:
        end.send(data, Deadline(PATIENCE_S))
        received = 0
        while received < len(data):
            received += len(end.receive(Deadline(PATIENCE_S)))
        return received

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write_and_read, (one, other))) == [len(data)] * 2
    with pytest.raises(PeerTimeout):
        one.receive(Deadline(0))
    one.close()
    other.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_its_parent_goes_on() -> None:
    one, other = connections()
    pid = os.fork()
    if pid == 0:
        try:
            one.send(b"child", Deadline(1))
        except ClosedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    one.send(b"parent", Deadline(1))
    assert other.receive(Deadline(1)) == b"parent"
    one.close()
    other.close()
