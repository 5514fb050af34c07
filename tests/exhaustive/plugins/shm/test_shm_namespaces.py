"""Engine and client in different pid and user namespaces, as in containers that share /dev/shm and /tmp."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from lucky_transport.shm.segment import segment_files
from lucky_transport.shm.segment.segment_files import remove_stale
from tests.support.boxes import HOST, PID, USER, boxed, needs
from tests.support.waiting import until

pytest.importorskip("grpc")

PROGRAMS = ("-m", "tests.support.boxed_programs")
Box = tuple[str, ...]
KINDS = ["steps", "sessions", "calls", "images", "stubs"]


@pytest.fixture(autouse=True)
def _cleaned(name: str) -> Iterator[None]:
    """Killed engines leave their segments behind; those of living ones must stay."""
    yield
    until(lambda: all(one.stale for one in _segments(name)))
    remove_stale()


@contextmanager
def served(box: Box, name: str) -> Iterator[Any]:
    """An engine in this box that is ready."""
    with boxed(box, *PROGRAMS, "engine", name) as engine:
        assert engine.line() == "ready"
        yield engine


def check_use(box: Box, name: str) -> None:
    """A client in this box uses everything."""
    with boxed(box, *PROGRAMS, "uses", name) as client:
        assert [client.line() for _ in KINDS] == KINDS


@contextmanager
def noticed(box: Box, name: str) -> Iterator[None]:
    """Clients in this box step and wait; they notice that the engine dies in the block."""
    with (
        boxed(box, *PROGRAMS, "steps", name) as driver,
        boxed(box, *PROGRAMS, "waits", f"{name}_commands") as caller,
    ):
        assert (driver.line(), caller.line()) == ("steps", "waits")
        yield
        for client in (driver, caller):
            assert client.line().startswith("PeerDied: ")


#: Where the engine is, and where the client.
PLACES = [
    pytest.param(PID, HOST, id="engine-inside"),
    pytest.param(HOST, PID, id="client-inside"),
    pytest.param(PID, PID, id="both-in-different-ones"),
    pytest.param(USER, HOST, id="engine-in-a-user-namespace"),
    pytest.param(HOST, USER, id="client-in-a-user-namespace"),
]


@pytest.mark.parametrize(("engine_box", "client_box"), PLACES)
def test_everything_works_across_namespaces(name: str, engine_box: Box, client_box: Box) -> None:
    needs(engine_box, client_box)
    with served(engine_box, name):
        check_use(client_box, name)


@pytest.mark.parametrize(("engine_box", "client_box"), PLACES[:3])
def test_a_killed_engine_is_noticed_and_the_next_one_takes_over(name: str, engine_box: Box, client_box: Box) -> None:
    needs(engine_box, client_box)
    with served(engine_box, name) as engine, ExitStack() as stack:
        with noticed(client_box, name):
            engine.kill()
            successor = stack.enter_context(
                boxed(engine_box, *PROGRAMS, "engine", name)
            )  # while the client still looks
        assert successor.line() == "ready"
        check_use(client_box, name)


@pytest.mark.parametrize(("engine_box", "client_box"), PLACES[:3])
def test_a_killed_client_leaves_its_place_to_the_next_one(name: str, engine_box: Box, client_box: Box) -> None:
    needs(engine_box, client_box)
    with served(engine_box, name):
        for _ in range(2):  # both are the first process of their namespace, with the same pid
            with boxed(client_box, *PROGRAMS, "steps", name) as client:
                assert client.line() == "steps"
                client.kill()


def test_a_forked_worker_that_keeps_every_descriptor_does_not_keep_its_dead_engine_alive(name: str) -> None:
    """The worker is forked by a C library, so nothing of ours closes its copies."""
    with boxed(HOST, *PROGRAMS, "engine", name, "forks") as engine:
        worker = int(engine.line())
        try:
            assert engine.line() == "ready"
            with noticed(HOST, name):
                engine.kill()
            os.kill(worker, 0)
        finally:
            os.kill(worker, signal.SIGKILL)


def test_an_engine_in_another_namespace_is_listed_as_living_and_never_removed(name: str) -> None:
    needs(PID)
    with served(PID, name):
        look = f"""
from lucky_transport.shm.segment.segment_files import find, remove_stale
remove_stale()
for one in find():
    if one.name == {name!r}:
        print(one.stale, one.engine, flush=True)
"""
        with boxed(PID, "-c", look) as client:
            assert client.line() == "False pid 1 of another pid namespace"
        (seen,) = [one for one in _segments(name) if one.name == name]
        assert seen.engine == f"pid {seen.engine_pid}"  # the namespace around another one has a pid for each process
        assert not seen.stale
    until(lambda: all(one.stale for one in _segments(name)))
    remove_stale()
    assert not _segments(name)


def test_a_client_is_told_that_the_segments_are_not_shared(name: str) -> None:
    needs(PID)
    with served(HOST, name):
        connect = f"""
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "shm", "/dev/shm"], check=True)
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import NotReachable
try:
    api.open_transport("shm://{name}", load_settings({{"connect_timeout_s": 0.1}}))
except NotReachable as error:
    print(error, flush=True)
"""
        with boxed(PID, "-c", connect) as client:
            line = client.line()
            assert f"/dev/shm/{name} is not there, but a process listens at " in line
            assert f"/{name}.sock" in line
            assert "--ipc" in line


def _segments(name: str) -> list[segment_files.SegmentInfo]:
    return [one for one in segment_files.find() if one.name.startswith(name)]
