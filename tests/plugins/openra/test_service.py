"""The bridge's unary methods, as the newer client of the original uses them."""

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

import grpc

from lucky_transport import api
from lucky_transport.errors import SpecError
from lucky_transport.serving import Serving
from lucky_transport.sessions.session import SessionLimits
from lucky_transport_openra.skirmish.messages import Order
from tests.plugins.openra.conftest import WORLDS, Serve, Stub, held, new_world, order
from tests.support.waiting import PATIENCE_S, until

MOST_TICKS = 5000


def test_a_session_can_be_played_once_its_phase_says_so(client: Stub) -> None:
    assert client.call("GetState", session_id="0123456789ab").phase == "no_bridge"
    session_id = client.ready()
    assert re.fullmatch("[0-9a-f]{12}", session_id)
    state = client.call("GetState", session_id=session_id)
    assert (state.episode_id, state.tick, state.phase, state.winner) == (session_id, 0, "playing", "")
    assert (state.player_count, state.player_faction, state.enemy_faction) == (2, "player", "opponent")


def test_of_two_calls_on_one_session_each_gets_the_reward_of_its_own_ticks(
    serve: Serve, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve()
    client, played = stub(serving), held(serving)
    advance = played.advance
    advanced, answered = threading.Event(), threading.Event()

    def one_point_a_tick(session_id: str, ticks: int, *more: Any, **named: Any) -> Any:
        seen = advance(session_id, ticks, *more, **named)
        if not advanced.is_set():
            advanced.set()
            answered.wait(0.5)  # the other call comes meanwhile
        return replace(seen, score=start + seen.ticks)

    session_id = client.ready()
    start = played.latest(session_id).score
    monkeypatch.setattr(played, "advance", one_point_a_tick)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.call, "FastAdvance", session_id=session_id, ticks=10)
        assert advanced.wait(PATIENCE_S)
        second = client.call("FastAdvance", session_id=session_id, ticks=5)
        answered.set()
        assert [(seen.tick, round(seen.reward)) for seen in (first.result(), second)] == [(10, 10), (15, 5)]


def test_an_advance_does_its_ticks_and_its_commands(client: Stub) -> None:
    session_id = client.ready()
    seen = client.call("FastAdvance", session_id=session_id, ticks=10, commands=[order(Order.DEPLOY)])
    assert (seen.tick, seen.actual_ticks_advanced, seen.episode_id) == (10, 10, session_id)
    assert [building.type for building in seen.buildings] == ["base"]
    assert list(seen.available_production) == ["power"]
    assert (seen.done, seen.result, seen.interrupted) == (False, "", False)
    grid = np.frombuffer(seen.spatial_map, np.float32)
    assert grid.size == seen.map_info.width * seen.map_info.height * seen.spatial_channels


@pytest.mark.parametrize(("asked", "done"), [(0, 1), (-5, 1), (3, 3), (MOST_TICKS + 1, MOST_TICKS)])
def test_ticks_are_clamped(client: Stub, asked: int, done: int) -> None:
    seen = client.call("FastAdvance", session_id=client.ready(), ticks=asked)
    assert (seen.tick, seen.actual_ticks_advanced) == (done, done)


def test_an_interrupt_ends_an_advance_early_where_it_is_asked_for(client: Stub) -> None:
    commands = [order(Order.ATTACK_MOVE, target_x=-1, target_y=-1)]
    request: dict[str, Any] = {"ticks": 600, "commands": commands, "enabled_interrupts": ["enemy_spotted"]}
    seen = client.call("FastAdvance", session_id=client.ready(seed=1), check_events_every=1, **request)
    assert (seen.interrupted, seen.interrupt_reason) == (True, "enemy_spotted")
    assert seen.actual_ticks_advanced == seen.tick < 500
    rarely = client.call("FastAdvance", session_id=client.ready(seed=1), check_events_every=64, **request)
    assert rarely.interrupt_reason == "enemy_spotted"
    assert rarely.tick % 64 == 0
    never = client.call("FastAdvance", session_id=client.ready(seed=1), **request)
    assert (never.interrupted, never.actual_ticks_advanced) == (False, 600)


def test_the_end_of_the_game_ends_an_advance_and_stays(client: Stub) -> None:
    session_id = client.ready()
    seen = client.call("FastAdvance", session_id=session_id, ticks=50, commands=[order(Order.SURRENDER)])
    assert (seen.done, seen.result, seen.actual_ticks_advanced) == (True, "lose", 1)
    again = client.call("FastAdvance", session_id=session_id, ticks=50)
    assert (again.done, again.tick, again.actual_ticks_advanced) == (True, 1, 0)
    state = client.call("GetState", session_id=session_id)
    assert (state.phase, state.winner) == ("game_over", "opponent")


def test_rewards_and_kills_are_those_since_the_last_look(serve: Serve, stub: Any) -> None:
    client = stub(serve(bots="brutal"))
    session_id = client.ready(seed=3)
    looks: list[Any] = []
    while not looks or not looks[-1].done:
        looks.append(client.call("FastAdvance", session_id=session_id, ticks=100))
    kills = [kill.victim_actor_id for seen in looks for kill in seen.kill_events]
    world = new_world(seed=3, bots="brutal")
    before = world.score
    while not world.is_over:
        world.tick()
    assert sum(seen.reward for seen in looks) == pytest.approx(world.score - before, abs=1e-3)
    assert len(kills) == len(set(kills)) > 0


def test_sessions_side_by_side_play_as_if_alone(serve: Serve, stub: Any) -> None:
    """64 of them, advanced by many threads, each with commands of its own: equal seeds, equal games."""
    client = stub(serve(bots="brutal"))
    ids = [client.call("CreateSession", seed=1 + number % 4).session_id for number in range(64)]

    def play(session_id: str) -> bytes:
        for ticks in (3, 40, 7):
            wire = client.call("FastAdvance", 60.0, session_id=session_id, ticks=ticks, commands=[order(Order.DEPLOY)])
        wire.episode_id = ""
        return wire.SerializeToString(deterministic=True)

    with ThreadPoolExecutor(16) as pool:
        digests = list(pool.map(play, ids))
    assert [len(set(digests[number::4])) for number in range(4)] == [1, 1, 1, 1]
    assert len(set(digests)) == 4


def test_a_call_without_a_session_means_the_oldest_that_goes_on(client: Stub) -> None:
    first, second = client.ready(), client.ready()
    assert client.call("GetState").episode_id == first
    assert client.call("FastAdvance", ticks=2, commands=[order(Order.SURRENDER)]).episode_id == first
    assert client.call("GetState").episode_id == second
    client.call("DestroySession", session_id=second)
    assert client.call("GetState").phase == "game_over"


def test_a_destroyed_session_is_gone_and_destroying_never_fails(client: Stub) -> None:
    session_id = client.ready()
    for unknown in (session_id, session_id, "", "no such session"):
        client.call("DestroySession", session_id=unknown)
    assert client.call("GetState", session_id=session_id).phase == "no_bridge"


# what goes wrong


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every tick of a skirmish take a millisecond at least."""
    kind = type(new_world())
    tick = kind.tick

    def slowly(world: Any) -> Sequence[str]:
        time.sleep(1e-3)
        return tick(world)

    monkeypatch.setattr(kind, "tick", slowly)


_OPPONENTS = "expected one opponent out of none, beginner, easy, medium, hard, brutal"
_REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    ("FastAdvance", {"session_id": "0123456789ab", "ticks": 1}, "UNAVAILABLE", "0123456789ab"),
    ("CreateSession", {"map_name": "moon.oramap"}, "INVALID_ARGUMENT", "there are plains, ridge, arena"),
    ("CreateSession", {"bots": "godlike"}, "INVALID_ARGUMENT", _OPPONENTS),
    ("CreateSession", {"bots": "Multi1:rl-agent,Multi0:godlike"}, "INVALID_ARGUMENT", "rush"),
    ("CreateSession", {"bots": "Multi0:easy,Multi2:hard"}, "INVALID_ARGUMENT", _OPPONENTS),
]


@pytest.mark.parametrize(("method", "fields", "status", "words"), _REFUSALS)
def test_what_is_unknown_is_refused_before_there_is_a_session(
    serve: Serve, stub: Any, refused: Any, method: str, fields: dict[str, Any], status: str, words: str
) -> None:
    serving = serve()
    error = refused(stub(serving).call, method, **fields)
    assert (error.code(), words in error.details()) == (grpc.StatusCode[status], True)
    assert held(serving).ids() == []


@pytest.mark.parametrize("option", ["map=moon", "bots=godlike"])
def test_a_server_whose_own_map_or_opponent_is_unknown_does_not_start(option: str) -> None:
    with (
        pytest.raises(SpecError, match=option.partition("=")[2]),
        api.serve("skirmish", f"openra://127.0.0.1:0?{option}"),
    ):
        pass


def test_a_world_that_cannot_be_built_aborts_the_call(
    client: Stub, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise ValueError("no ground to stand on")

    monkeypatch.setattr(type(WORLDS), "create", fail)
    session_id = client.call("CreateSession").session_id
    until(lambda: client.call("GetState", session_id=session_id).phase == "no_bridge")
    error = refused(client.call, "FastAdvance", session_id=session_id, ticks=1)
    assert error.code() is grpc.StatusCode.ABORTED
    assert "no ground to stand on" in error.details()


# the original's names, and its client of one session


@pytest.fixture
def shipped() -> Iterator[Serving]:
    """The skirmish, served without any option."""
    with api.serve("skirmish", "openra://127.0.0.1:0") as serving:
        yield serving


@pytest.mark.parametrize(
    "opponent",
    ["beginner", "easy", "medium", "normal", "hard", "brutal", "rush", "turtle", "naval", "dummy"],
)
def test_the_originals_default_map_and_each_of_its_opponents_are_played(
    shipped: Serving, stub: Any, caplog: pytest.LogCaptureFixture, opponent: str
) -> None:
    caplog.set_level(logging.INFO, "lucky_transport")
    client = stub(shipped)
    session_id = client.ready(map_name="singles.oramap", bots=f"Multi1:rl-agent,Multi0:{opponent}")
    seen = client.call("FastAdvance", session_id=session_id, ticks=5)
    assert (seen.tick, seen.map_info.map_name) == (5, "plains")
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "map 'singles' is not here; 'plains' is played" in said
    assert ("opponent" in said) == (opponent in ("normal", "rush", "turtle", "naval", "dummy"))


def test_a_client_that_knows_no_sessions_finds_a_game_and_plays_it(shipped: Serving, stub: Any) -> None:
    client = stub(shipped)
    before = client.call("GetState")
    assert (before.phase, before.tick, before.player_count) == ("playing", 0, 2)
    assert (before.player_faction, before.enemy_faction) == ("player", "opponent")
    assert held(shipped).ids() == []  # asking starts no game
    assert client.call("FastAdvance", ticks=10).tick == 10
    assert client.call("FastAdvance", ticks=5).tick == 15
    (session_id,) = held(shipped).ids()
    state = client.call("GetState")
    assert (state.episode_id, state.tick, state.phase) == (session_id, 15, "playing")
    for _ in range(2):  # it stays over until it is destroyed
        assert client.call("FastAdvance", ticks=1, commands=[order(Order.SURRENDER)]).done
        assert client.call("GetState").phase == "game_over"
    client.call("DestroySession", session_id=session_id)
    assert client.call("GetState").phase == "playing"
    assert client.call("FastAdvance", ticks=3).tick == 3


@pytest.mark.usefixtures("slow")
def test_a_session_destroyed_under_a_call_aborts_it(client: Stub, refused: Any) -> None:
    session_id = client.ready()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(refused, client.call, "FastAdvance", 60.0, session_id=session_id, ticks=MOST_TICKS)
        until(lambda: client.call("GetState", session_id=session_id).tick > 10)
        client.call("DestroySession", session_id=session_id)
        assert call.result(PATIENCE_S).code() is grpc.StatusCode.ABORTED


@pytest.mark.usefixtures("slow")
def test_no_free_worker_is_resource_exhausted_in_the_originals_words(serve: Serve, stub: Any, refused: Any) -> None:
    serving = serve()
    sessions = held(serving)
    limits = SessionLimits(slots=1, slot_timeout_s=0.05)
    sessions.__init__(sessions.worlds, sessions.engine, limits)
    client = stub(serving)
    busy, other = client.ready(), client.ready()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(refused, client.call, "FastAdvance", 60.0, session_id=busy, ticks=MOST_TICKS)
        until(lambda: client.call("GetState", session_id=busy).tick > 10)
        error = refused(client.call, "FastAdvance", session_id=other, ticks=1)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error.details().startswith("All worker slots busy, retry later")
        client.call("DestroySession", session_id=busy)  # ends the long call too
        call.result(PATIENCE_S)


@pytest.mark.usefixtures("slow")
def test_a_caller_that_leaves_stops_its_advance(client: Stub, refused: Any) -> None:
    session_id = client.ready()
    error = refused(client.call, "FastAdvance", 0.2, session_id=session_id, ticks=MOST_TICKS)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    seen = client.call("FastAdvance", 30.0, session_id=session_id, ticks=1)
    assert seen.tick < MOST_TICKS


@pytest.mark.parametrize("engine", ["toy", "cartpole"])
def test_an_engine_that_speaks_of_something_else_says_so(serve: Serve, stub: Any, refused: Any, engine: str) -> None:
    client = stub(serve(engine))
    for name in ("CreateSession", "FastAdvance", "GetState", "DestroySession"):
        error = refused(client.call, name)
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert engine in error.details()
    error = refused(list, client.stream(iter(())))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
