"""What is registered runs around a fork, as long as its object lives."""

import atexit
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.call import Call
from lucky_transport.errors import ClosedError
from lucky_transport.fork import around_fork, at_exit, on_child
from lucky_transport.messages import ImageFrame, StartViewportStreamRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, in_a_child

VIEW = method("/hazel.rpc.ViewportService/StreamViewport")

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


class Noting:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def before(self) -> None:
        self.seen.append("before")

    def in_parent(self) -> None:
        self.seen.append("parent")

    def in_child(self) -> None:
        self.seen.append("child")

    def fail(self) -> None:
        raise RuntimeError("broken")


def test_a_child_and_its_children_make_the_call_and_the_parent_does_not() -> None:
    noting = Noting()
    on_child(noting.in_child)
    assert in_a_child(lambda: noting.seen == ["child"] and in_a_child(lambda: noting.seen == ["child", "child"]))
    assert noting.seen == []


def test_both_processes_know_what_happened_before() -> None:
    noting = Noting()
    around_fork(noting.before, noting.in_parent, noting.in_child)
    assert in_a_child(lambda: noting.seen == ["before", "child"])
    assert noting.seen == ["before", "parent"]


def test_an_object_is_not_kept_alive() -> None:
    noting = Noting()
    seen = noting.seen
    on_child(noting.in_child)
    references = sys.getrefcount(noting)
    on_child(noting.in_child)
    assert sys.getrefcount(noting) == references
    del noting
    gc.collect()
    assert in_a_child(lambda: seen == [])


def test_one_call_that_fails_keeps_no_other_from_being_made() -> None:
    broken, noting = Noting(), Noting()
    on_child(broken.fail)
    on_child(noting.in_child)
    assert in_a_child(lambda: noting.seen == ["child"])


@pytest.mark.parametrize("transport", ["inproc", "shm", "grpc"])
def test_a_child_is_refused_the_stream_in_which_a_thread_of_its_parent_waits(transport: str) -> None:
    if transport != "inproc":
        pytest.importorskip(f"lucky_transport_{transport}.server")
    waits, go_on, got = threading.Event(), threading.Event(), list[int]()

    def view(request: StartViewportStreamRequest, call: Call) -> Iterator[ImageFrame]:
        waits.set()
        assert go_on.wait(PATIENCE_S)
        yield ImageFrame(frame_number=7)

    endpoint = f"{transport}://{'127.0.0.1:0' if transport == 'grpc' else unique_name()}"
    with (
        api.serve(ScriptedEngine(streams={VIEW.name: view}), endpoint) as serving,
        api.open_transport(serving.endpoints[0]) as client,
    ):
        stream = client.stream(VIEW, StartViewportStreamRequest())
        thread = threading.Thread(target=lambda: got.append(next(stream).frame_number))
        thread.start()
        assert waits.wait(PATIENCE_S)

        def is_refused() -> bool:
            signal.alarm(int(PATIENCE_S))  # ends a child that hangs
            with pytest.raises(ClosedError):
                next(stream)
            return True

        assert in_a_child(is_refused)
        go_on.set()
        thread.join(PATIENCE_S)
    assert got == [7]


def _registers(path: str) -> None:
    at_exit(lambda: Path(path).write_text("ended"))


@pytest.mark.parametrize("registers", [_registers, lambda _: None], ids=["registered there", "registered before"])
def test_a_worker_of_multiprocessing_ends_with_what_is_called_at_exit(
    registers: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, register = os.getpid(), atexit.register  # which 3.13 calls in a worker
    monkeypatch.setattr(atexit, "register", lambda call: None if os.getpid() == here else register(call))
    path = tmp_path / "ended"
    if registers is not _registers:
        _registers(str(path))
    worker = multiprocessing.get_context("fork").Process(target=registers, args=(str(path),))
    worker.start()
    worker.join(PATIENCE_S)
    assert worker.exitcode == 0
    assert path.read_text() == "ended"
