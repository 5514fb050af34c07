"""Sessions in shared memory: the newest look without a call, and what is left when somebody dies."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorld, CartPoleWorlds
from lucky_transport.errors import ClosedError, PeerTimeout, RemoteProtocolError, SessionEnded, Unimplemented
from lucky_transport.messages import ShareSessionResponse
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.sessions.client import SessionClient
from lucky_transport.sessions.shared_snapshots import SnapshotReader
from lucky_transport.transport import Transport
from tests.support.resources import measure, released
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("forked_engines")

ENDLESS = {"initial_angle": 0, "max_ticks": 1_000_000_000}


def files_of(name: str) -> list[str]:
    """Return what lies in shared memory under that name."""
    return sorted(path.name for path in Path("/dev/shm").glob(f"{name}*"))


@pytest.fixture
def engine() -> Generator[EngineProcess]:
    """An engine of carts in a process of its own; nothing of it may be left."""
    yield from _run_engine()


def _run_engine() -> Generator[EngineProcess]:
    name = unique_name()
    process = EngineProcess("cartpole", [f"shm://{name}"])
    yield process
    process.stop()
    assert files_of(name) == []


@pytest.fixture(scope="module")
def shared_engine() -> Generator[EngineProcess]:
    """An engine like that, for the tests that leave it as it is."""
    yield from _run_engine()


@pytest.fixture
def client(shared_engine: EngineProcess) -> Generator[Transport]:
    with api.open_transport(shared_engine.endpoints[0]) as transport:
        yield transport


def test_the_newest_look_is_seen_without_a_call(client: Transport) -> None:
    sessions = SessionClient(client)
    session = sessions.create(seed=1)
    looks = sessions.watch(session)
    for _ in range(5):
        done = sessions.advance(session, 2, [CartPoleCommand(True)])
        seen = looks.latest()
        assert (seen.observation, seen.ticks, seen.score) == (done.observation, done.ticks, done.score)


def test_a_reader_who_paused_sees_the_newest_tick_of_a_running_session(client: Transport) -> None:
    sessions = SessionClient(client)
    session = sessions.create(options=ENDLESS)
    looks = sessions.watch(session)
    sessions.run(session, 200.0)
    looks.latest(0)
    time.sleep(0.3)
    before = sessions.state(session).ticks
    assert looks.latest().ticks >= before > 10


def test_a_reader_follows_every_session_of_many_that_run(client: Transport) -> None:
    sessions = SessionClient(client)
    ids = [sessions.create(options=ENDLESS) for _ in range(64)]
    looks = [sessions.watch(session) for session in ids]
    for session in ids:
        sessions.run(session, 0)
    for look in looks:
        first = look.latest()
        assert look.latest(first.ticks).ticks > first.ticks


def test_a_wait_ends_with_the_deadline_with_the_world_and_with_the_session(client: Transport) -> None:
    sessions = SessionClient(client)
    session = sessions.create(seed=1)
    looks = sessions.watch(session)
    with pytest.raises(PeerTimeout, match=f"session {session} showed nothing after tick 100 within 0.02 s; advance it"):
        looks.latest(100, Deadline(0.02))
    sessions.run(session, 0)
    with pytest.raises(SessionEnded, match=f"session {session} is over since tick [0-9]+: there is nothing newer"):
        looks.latest(10_000)
    other = sessions.create()
    looks = sessions.watch(other)
    timer = threading.Timer(0.05, sessions.destroy, [other])
    timer.start()
    with pytest.raises(SessionEnded, match=f"session {other} has ended"):
        looks.latest(100)
    timer.join()


@dataclass(slots=True)
class Talk:
    """All that was said."""

    text: str = ""


class TalkingWorlds(CartPoleWorlds):
    """Worlds whose observation grows by ten letters with every tick."""

    observation = Talk

    def create(self, map_name: str, seed: int | None, options: Mapping[str, Any]) -> Any:
        return TalkingWorld(seed, max_ticks=10_000, initial_angle=0.0)


class TalkingWorld(CartPoleWorld):
    """A cart that talks."""

    def observe(self) -> Any:
        return Talk("x" * 10 * self.ticks)


class MeetingWorlds(CartPoleWorlds):
    """Worlds none of which ticks before so many do."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.meeting = threading.Barrier(count)

    def create(self, map_name: str, seed: int | None, options: Mapping[str, Any]) -> Any:
        return MeetingWorld(self.meeting, seed)


class MeetingWorld(CartPoleWorld):
    """A cart that waits for the others."""

    def __init__(self, meeting: threading.Barrier, seed: int | None) -> None:
        super().__init__(seed)
        self._meeting = meeting

    def tick(self) -> Sequence[str]:
        self._meeting.wait(PATIENCE_S)
        return super().tick()


def test_an_engine_keeps_no_memory_of_a_client_that_left_while_it_watched(engine: EngineProcess) -> None:
    name = engine.endpoints[0].address
    with api.open_transport(engine.endpoints[0]) as client:
        SessionClient(client).create(seed=1, options=ENDLESS)
    before = measure(name, engine.pid)
    with api.open_transport(engine.endpoints[0]) as client:
        sessions = SessionClient(client)
        session = sessions.create(seed=1, options=ENDLESS)
        looks = sessions.watch(session)
        sessions.advance(session, 1)
        looks.latest()
    left = released(before, name, pid=engine.pid)
    assert (left.mappings, left.files) == (before.mappings, before.files)


@pytest.mark.parametrize("drives", [True, False], ids=["driver", "command client"])
def test_sessions_advanced_together_are_under_way_together(drives: bool) -> None:
    endpoint, worlds = f"shm://{unique_name()}", MeetingWorlds(8)
    with (
        api.serve(WorldsEngine(worlds, "meeting"), endpoint),
        nullcontext() if drives else api.open_transport(endpoint),
        api.open_transport(endpoint) as transport,
    ):
        sessions = SessionClient(transport, worlds)
        outcomes = sessions.advance_all([AdvanceRequest(sessions.create(), 3) for _ in range(8)])
        assert [done.ticks_done for done in outcomes] == [3] * 8


def test_a_look_that_outgrows_its_file_is_found_in_another_one() -> None:
    endpoint = f"shm://{unique_name()}"
    worlds = TalkingWorlds()
    with (
        api.serve(WorldsEngine(worlds, "talking"), endpoint),
        api.open_transport(endpoint) as transport,
    ):
        sessions = SessionClient(transport, worlds)
        session = sessions.create()
        looks = sessions.watch(session)
        found: list[int] = []
        for _ in range(6):
            sessions.advance(session, 200)
            seen = looks.latest()
            assert len(seen.observation.text) == 10 * seen.ticks
            found.append(seen.ticks)
        assert found == [200, 400, 600, 800, 1000, 1200]
        assert len([name for name in files_of(endpoint[6:]) if ".looks." in name]) == 1


def test_a_forked_child_does_not_look(client: Transport) -> None:
    sessions = SessionClient(client)
    looks = sessions.watch(sessions.create())
    child = os.fork()
    if child == 0:
        try:
            looks.latest()
        except ClosedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert looks.latest().ticks == 0


def test_a_reader_that_another_thread_reads_with_waits_no_longer_than_its_deadline(client: Transport) -> None:
    sessions = SessionClient(client)
    looks = sessions.watch(session := sessions.create())
    reading = threading.Thread(target=lambda: suppressed(SessionEnded, looks.latest, 1_000_000, Deadline(PATIENCE_S)))
    reading.start()
    until(looks._lock.locked)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(PeerTimeout):
        looks.latest(-1, Deadline(0.01))
    child = os.fork()
    if child == 0:
        try:
            looks.latest(-1, Deadline(PATIENCE_S))
        except ClosedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    sessions.destroy(session)
    reading.join(PATIENCE_S)
    assert not reading.is_alive()


def suppressed(kind: type[Exception], call: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(kind):
        call(*arguments)


def test_an_answer_that_names_another_file_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"a session in '\.\./etc/passwd'"):
        SnapshotReader("x", lambda _: ShareSessionResponse("../etc/passwd", 1, 1), CartPoleWorlds())


@pytest.mark.exhaustive
def test_an_engine_without_shared_memory_says_so() -> None:
    with api.serve("cartpole", "inproc://no_shared") as _, api.open_transport("inproc://no_shared") as client:
        sessions = SessionClient(client)
        with pytest.raises(Unimplemented, match="engine 'cartpole' serves no shared memory; ask with GetLatest"):
            sessions.watch(sessions.create())
