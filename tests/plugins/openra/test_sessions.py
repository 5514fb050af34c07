"""Our client of the bridge: sessions, retries, reconnecting."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

import grpc

from lucky_transport import api, errors
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.process import EngineProcess
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport_openra.bridge import Retry
from lucky_transport_openra.skirmish.messages import Command, Order, Orders
from tests.plugins.openra.conftest import Serve, held, new_world
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S, suspend, until

pytestmark = pytest.mark.usefixtures("forked_engines")

DEPLOY = Orders([Command(Order.DEPLOY)])


def _same_without_a_wire(seed: int, ticks: int) -> Any:
    world = new_world(seed=seed, bots="brutal")
    world.act([DEPLOY])
    for _ in range(ticks):
        world.tick()
    return world.observe()


def test_a_session_shows_what_its_world_shows_without_a_wire(serve: Serve, sessions: Any) -> None:
    door = sessions(serve(bots="brutal"))
    session_id = door.create(seed=5)
    assert door.advance(session_id, 0).ticks == 0
    seen = door.advance(session_id, 700, [DEPLOY])
    assert seen.observation == _same_without_a_wire(5, 700)
    assert (seen.ticks, seen.ticks_done, seen.is_over) == (700, 700, False)


def test_orders_given_between_advances_wait_for_the_next_one(door: Any) -> None:
    session_id = door.create()
    assert door.act(session_id, [DEPLOY]) == 0
    assert door.advance(session_id, 0).observation.buildings == []
    assert len(door.advance(session_id, 1).observation.buildings) == 1
    assert door.act(session_id, [Orders()] * 20) == 4


def test_a_session_that_starts_over_keeps_its_id_and_no_orders_that_waited(serve: Serve, sessions: Any) -> None:
    door = sessions(serve(bots="brutal"))
    session_id = door.create(seed=5)
    door.advance(session_id, 300, [DEPLOY])
    assert door.restart(session_id, 6).ticks == 0
    door.act(session_id, [DEPLOY])
    door.restart(session_id, 5)
    assert door.advance(session_id, 1).observation.buildings == []
    door.restart(session_id, 5)
    assert door.advance(session_id, 700, [DEPLOY]).observation == _same_without_a_wire(5, 700)


def test_another_clients_session_that_is_started_over_ends_with_the_client_that_did_so(
    serve: Serve, sessions: Any
) -> None:
    serving = serve()
    session_id = sessions(serving).create()
    door = sessions(serving)
    door.restart(session_id)
    assert door.advance(session_id, 2).ticks == 2
    door.close()
    assert held(serving).ids() == []


def test_ids_that_were_only_asked_for_are_forgotten(door: Any) -> None:
    for number in range(10):
        assert door.state(f"{number:012x}").phase == "gone"
        with pytest.raises(errors.UnknownSession):
            door.advance(f"{number:012x}")
    assert door._known == {}


def test_a_sessions_state_follows_its_game(door: Any) -> None:
    session_id = door.create("arena")
    assert door.advance(session_id, 3, [Orders([Command(Order.SURRENDER)])]).result == "lose"
    state = door.state(session_id)
    assert (state.phase, state.map_name, state.is_over, state.result) == ("over", "arena", True, "lose")
    door.destroy(session_id)
    assert door.state(session_id).phase == "gone"


_REFUSALS: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "a look ahead": (
        lambda door: door.latest(door.create(), 0),
        errors.LocalProtocolError,
        "stands still at tick 0; run or advance it",
    ),
    "an option": (
        lambda door: door.create(options={"cash": 3}),
        errors.SpecError,
        "option 'cash' does not travel over the bridge",
    ),
    "a map": (lambda door: door.create("moon"), errors.SpecError, "no map 'moon'"),
    "a session": (lambda door: door.advance("0123456789ab"), errors.UnknownSession, "has no session '0123456789ab'"),
    "a recording": (lambda door: door.create(record=True), errors.Unimplemented, "has no recordings"),
}


@pytest.mark.parametrize("what", _REFUSALS)
def test_what_the_bridge_cannot_carry_is_refused(door: Any, what: str) -> None:
    call, error, words = _REFUSALS[what]
    with pytest.raises(error, match=words):
        call(door)
    assert door.latest(door.create()).ticks == 0


def test_sessions_end_with_the_client_that_created_them(serve: Serve, sessions: Any) -> None:
    serving = serve()
    door = sessions(serving)
    kept, other = sessions(serving).create(), door.create()
    door.run(other, 0.0)
    door.advance(kept, 1)
    door.close()
    door.close()
    until(lambda: held(serving).ids() == [kept])
    with pytest.raises(errors.ClosedError):
        door.advance(kept)


# together


def test_games_advanced_together_show_what_each_shows_alone(serve: Serve, sessions: Any) -> None:
    door = sessions(serve(bots="brutal"))
    ids = [door.create(seed=seed) for seed in range(1, 21)]
    outcomes = door.advance_all(
        [AdvanceRequest(ids[0], 0), *(AdvanceRequest(session_id, 100, [DEPLOY]) for session_id in ids[1:])]
    )
    assert [(done.ticks, done.ticks_done) for done in outcomes[1:]] == [(100, 100)] * 19
    assert (outcomes[0].ticks, outcomes[5].observation) == (0, _same_without_a_wire(6, 100))


def test_games_advanced_together_are_under_way_together(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, kind = threading.Barrier(8), type(new_world())
    tick = kind.tick

    def meet(world: Any) -> Any:
        meeting.wait(PATIENCE_S)
        return tick(world)

    monkeypatch.setattr(kind, "tick", meet)
    assert [done.ticks for done in door.advance_all([AdvanceRequest(door.create(), 2) for _ in range(8)])] == [2] * 8


def test_a_game_that_fails_keeps_no_other_from_its_ticks(door: Any) -> None:
    first, second = door.create(), door.create()
    with pytest.raises(errors.UnknownSession, match="has no session '0123456789ab'"):
        door.advance_all([AdvanceRequest(first), AdvanceRequest("0123456789ab"), AdvanceRequest(second, 2)])
    assert [door.advance(session_id, 0).ticks for session_id in (first, second)] == [1, 2]
    with pytest.raises(errors.ConfigError, match=f"session '{second}' is in two requests"):
        door.advance_all([AdvanceRequest(second), AdvanceRequest(second)])


def test_orders_of_a_game_that_was_refused_are_given_when_it_is_asked_for_again(
    serve: Serve, sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve()
    found = held(serving)
    door = sessions(serving, Retry(first_wait_s=0.001))
    session_id = door.create()
    door.advance(session_id, 0)
    advance, refusals = found.advance, iter([True, True])

    def refuse_twice(*arguments: Any, **options: Any) -> Any:
        if next(refusals, False):
            raise errors.Busy("all worker slots busy")
        return advance(*arguments, **options)

    monkeypatch.setattr(found, "advance", refuse_twice)
    assert len(door.advance_all([AdvanceRequest(session_id, 1, [DEPLOY])])[0].observation.buildings) == 1


# retries


@pytest.mark.parametrize(
    ("retry", "fails", "within_s", "calls"),
    [
        (Retry(first_wait_s=0.001), [errors.Busy] * 3, 5, 4),
        (Retry(attempts=3, first_wait_s=0.001), [errors.Busy] * 3, 5, 3),
        (Retry(first_wait_s=10), [errors.Busy], 0.01, 1),
        (Retry(), [errors.PeerDied], 5, 1),
    ],
    ids=["in time", "too often", "too late", "another error"],
)
def test_a_refusal_for_want_of_a_worker_is_retried(
    retry: Retry, fails: list[type[Exception]], within_s: float, calls: int
) -> None:
    made: list[int] = []

    def make() -> str:
        made.append(1)
        if len(made) <= len(fails):
            raise fails[len(made) - 1]("no worker")
        return "done"

    with nullcontext() if calls > len(fails) else pytest.raises(fails[0]):
        assert retry.call(make, Deadline(within_s)) == "done"
    assert len(made) == calls


# what goes wrong


def _start(port: int) -> EngineProcess:
    return EngineProcess("skirmish:arena", [f"openra://127.0.0.1:{port}?map=arena&bots=none&rate=100"])


def _go_on_for_ever(door: Any, session_id: str, doing: str) -> None:
    while doing == "advance":
        door.advance(session_id, 5)
    others = [AdvanceRequest(door.create(), 5) for _ in range(15)] if doing == "advance together" else []
    while others:
        door.advance_all([AdvanceRequest(session_id, 5), *others])
    door.latest(session_id, 1 << 30, Deadline(PATIENCE_S))


@pytest.mark.parametrize("doing", ["advance", "advance together", "watch"])
def test_a_killed_engine_is_a_typed_error_at_once_and_a_new_one_is_found_again(sessions: Any, doing: str) -> None:
    port = free_port()
    engine = _start(port)
    door = sessions(engine.endpoints[0])
    try:
        session_id = door.create()
        door.advance(session_id, 5)
        if doing == "watch":
            door.run(session_id, 0.0)
            door.latest(session_id, 5)
        killer = threading.Timer(0.1, os.kill, (engine.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(errors.PeerDied):  # and no PeerTimeout
            _go_on_for_ever(door, session_id, doing)
        killer.join()
        engine.stop()
        engine = _start(port)
        assert door.bridge.state("", Deadline(10)).phase == "playing"
        assert door.advance(door.create(), 5).ticks == 5
    finally:
        engine.stop()


def test_an_engine_that_does_not_answer_ends_the_wait_at_the_deadline(sessions: Any) -> None:
    engine = _start(free_port())
    try:
        door = sessions(engine.endpoints[0])
        session_id = door.create()
        suspend(engine.pid)
        with pytest.raises(errors.PeerTimeout, match=r"FastAdvance did not end within 0\.2 s"):
            door.advance(session_id, 5, deadline=Deadline(0.2))
        with pytest.raises(errors.PeerTimeout, match=r"FastAdvance did not end within 0\.2 s"):
            door.advance_all([AdvanceRequest(session_id, 5)], Deadline(0.2))
        os.kill(engine.pid, signal.SIGCONT)
        assert door.advance(session_id, 5).ticks >= 5
    finally:
        os.kill(engine.pid, signal.SIGCONT)
        engine.stop()


def test_an_address_without_an_engine_is_not_reachable() -> None:
    for service in ("bridge", "batch"):
        endpoint = Endpoint("openra", f"127.0.0.1:{free_port()}", (("service", service),))
        with pytest.raises(errors.NotReachable, match=r"no engine at openra://.*serve skirmish --endpoint openra"):
            api.connect(str(endpoint), connect_timeout_s=0.3)


def test_an_engine_without_our_batch_service_is_refused_with_the_remedy() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(
            errors.Unimplemented, match=f"has no batch service; .*openra://127.0.0.1:{port}.service=bridge"
        ):
            api.connect(f"openra://127.0.0.1:{port}")
    finally:
        server.stop(None)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("sesions=2", r"unknown option 'sesions'; did you mean 'sessions'\? there are bots, map, planning, rate, seed"),
        ("sessions=0", "sessions=0; expected a number of sessions, at least 1"),
        *((f"sessions={text}", f"sessions={text}; expected a number of sessions") for text in ("many", "1_0")),
        ("service=carrier-pigeon", "expected one of batch, bridge"),
        *((f"rate={rate}", f"rate={rate}; expected ticks a second") for rate in ("-1", "nan", "inf", "10000001")),
        ("seed=-1", "seed=-1; expected a whole number >= 0"),
        ("seed=2147483648", "seed=2147483648; expected a whole number"),
        ("planning=perhaps", "planning=perhaps; expected 1 or 0"),
    ],
)
def test_a_slip_in_an_endpoint_shows_where_it_was_made(query: str, text: str) -> None:
    endpoint = f"openra://127.0.0.1:1?{query}"
    with pytest.raises(errors.ConfigError, match=text):
        api.serve("skirmish", endpoint) if query.startswith(("rate", "planning")) else api.connect(endpoint)


def test_the_url_that_a_server_tells_is_one_for_clients(serve: Serve) -> None:
    endpoint = serve(rate=3, planning=1).endpoints[0]
    assert "rate=3" in str(endpoint)
    with api.connect(str(endpoint)) as client:
        assert client.transport.spec.engine == "skirmish"
