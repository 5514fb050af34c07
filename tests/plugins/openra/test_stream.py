"""The bridge's stream: as the older client of the original uses it, and as ours does."""

import itertools
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

import grpc

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ClosedError, PeerTimeout, SessionEnded
from lucky_transport.serving import Serving
from lucky_transport_openra import _pb
from lucky_transport_openra.bridge import Bridge
from lucky_transport_openra.game_stream import GameStreamClient
from lucky_transport_openra.skirmish.messages import Command, Order, Orders
from tests.plugins.openra.conftest import Serve, Stub, held, order
from tests.support.waiting import PATIENCE_S, call_later, until


class Game:
    """A game as the older client plays it: what is said goes into a stream, `seen` are its observations.

    first: the first of them.
    """

    def __init__(self, client: Stub) -> None:
        self._said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.client = client
        self.seen = client.stream(iter(self._said.get, None))
        self.first = next(self.seen)

    def say(self, *commands: Any) -> None:
        """Send an action with these commands."""
        self._said.put(_pb.AgentAction(commands=commands))

    def stop(self) -> None:
        """End this side of the stream."""
        self._said.put(None)

    def until(self, condition: Callable[[Any], object], most: int = 5000) -> Any:
        """Return the first observation for which `condition` holds."""
        return next(seen for _, seen in zip(range(most), self.seen, strict=False) if condition(seen))


@pytest.fixture
def play(serve: Serve, stub: Any) -> Iterator[Callable[..., Game]]:
    """Play a game of what is served, by default a skirmish of these options, over a channel of its own."""
    with ExitStack() as stack:

        def start(serving: Serving | None = None, pings: Any = None, **options: Any) -> Game:
            game = Game(stub(serving or serve(**{"rate": 100, **options}), **(pings or {})))
            stack.callback(game.seen.cancel)
            return game

        yield start


def test_a_stream_begins_with_the_present_and_goes_on_by_itself(play: Any) -> None:
    game = play(rate=500)
    ticks = [game.first.tick, *(next(game.seen).tick for _ in range(20))]
    assert ticks[0] == 0
    assert ticks == sorted(set(ticks))


def test_actions_have_their_effect_while_the_game_goes_on(play: Any) -> None:
    game = play(rate=500)
    game.say(order(Order.DEPLOY))
    assert game.until(lambda seen: seen.buildings).available_production == ["power"]
    game.say(order(Order.SURRENDER))
    last = list(game.seen)[-1]
    assert (last.done, last.result) == (True, "lose")


def test_a_fast_advance_in_the_stream_does_its_ticks_at_once(play: Any) -> None:
    game = play(rate=5)
    game.say(order(Order.FAST_ADVANCE, ticks=900))
    assert game.until(lambda seen: seen.tick >= 900).tick < game.first.tick + 1000


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (Busy("all worker slots busy"), "RESOURCE_EXHAUSTED"),
        (PeerTimeout("the advance took too long"), "DEADLINE_EXCEEDED"),
        (ArithmeticError("the worlds broke"), "INTERNAL"),
    ],
    ids=["Busy", "PeerTimeout", "foreign"],
)
def test_an_action_that_fails_ends_the_stream_with_its_error(
    serve: Serve, play: Any, monkeypatch: pytest.MonkeyPatch, refused: Exception, status: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise refused

    serving = serve(rate=100)
    monkeypatch.setattr(held(serving), "advance", refuse)
    game = play(serving)
    game.say(order(Order.FAST_ADVANCE, ticks=5))
    with pytest.raises(grpc.RpcError, match=str(refused)) as caught:
        list(game.seen)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode[status]


def test_an_action_after_the_end_does_not_keep_the_end_from_being_seen(
    serve: Serve, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve(rate=100)
    advance = held(serving).advance

    def surrender_first(session_id: str, *_: object) -> None:
        advance(session_id, 1, [Orders([Command(Order.SURRENDER)])])
        raise SessionEnded("the game is over")

    monkeypatch.setattr(held(serving), "advance", surrender_first)
    game = play(serving)
    game.say(order(Order.FAST_ADVANCE, ticks=5))
    assert list(game.seen)[-1].done


def test_the_world_stands_still_until_the_first_action_where_there_is_time_to_plan(serve: Serve, play: Any) -> None:
    serving = serve(rate=500, planning=1)
    game, other = play(serving), play(serving)
    assert (game.first.tick, other.first.tick) == (0, 0)
    other.say()
    assert other.until(lambda seen: seen.tick > 20)
    assert game.client.call("GetState", session_id=game.first.episode_id).tick == 0
    game.say()
    assert game.until(lambda seen: seen.tick > 3)


@pytest.mark.parametrize(
    "leave",
    [
        lambda game: game.seen.cancel(),
        lambda game: (game.stop(), list(game.seen)),
        lambda game: game.client.channel.close(),
    ],
    ids=["cancel", "stop talking", "close the channel"],
)
def test_a_client_that_leaves_ends_the_session_of_its_stream(
    serve: Serve, play: Any, leave: Callable[[Game], object]
) -> None:
    serving = serve(rate=100)
    game = play(serving)
    assert len(held(serving).ids()) == 1
    leave(game)
    until(lambda: not held(serving).ids())


def test_clients_without_session_ids_are_given_the_session_that_was_created_or_games_of_their_own(
    serve: Serve, stub: Any, play: Any
) -> None:
    serving = serve(rate=100)
    session_id = stub(serving).ready()
    episodes = [play(serving).first.episode_id for _ in range(4)]
    assert session_id in episodes
    assert len(set(episodes)) == 4


@pytest.mark.parametrize("end", ["the session is destroyed", "the engine stops"])
def test_a_session_or_engine_that_is_gone_ends_its_stream(serve: Serve, stub: Any, play: Any, end: str) -> None:
    serving = serve(rate=100)
    session_id = stub(serving).ready()
    game = play(serving)
    game.client.call("DestroySession", session_id=session_id) if "session" in end else serving.stop()
    with pytest.raises(grpc.RpcError) as caught:
        list(game.seen)
    error: Any = caught.value
    assert error.code() in (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE)


def test_a_client_that_asks_often_whether_we_live_is_not_cut_off(play: Any) -> None:
    """The original's client asks every 10 s, this one every second; gRPC's default cuts off after three questions."""
    pings = {"keepalive_time_ms": 100, "keepalive_timeout_ms": 5000, "http2.max_pings_without_data": 0}
    game = play(pings=pings, planning=1)
    assert game.first.tick == 0
    threading.Timer(3.3, game.say).start()
    assert next(game.seen).tick > 0


@pytest.mark.exhaustive
def test_messages_of_64_mib_go_both_ways(serve: Serve, stub: Any) -> None:
    client = stub(serve(), max_send_message_length=-1, max_receive_message_length=-1)
    session_id = client.ready()
    long_name = "x" * (60 << 20)
    commands = [order(Order.BUILD, item_type=long_name)]
    assert client.call("FastAdvance", session_id=session_id, ticks=1, commands=commands).tick == 1


# our own reader


@pytest.fixture
def watch(serve: Serve) -> Iterator[Callable[..., tuple[Bridge, GameStreamClient]]]:
    """Stream a session of what is served with these options, with our client."""
    with ExitStack() as stack:

        def start(serving: Serving | None = None, **options: Any) -> tuple[Bridge, GameStreamClient]:
            bridge = Bridge((serving or serve(**options)).endpoints[0], Settings())
            stack.callback(bridge.close)
            stream = GameStreamClient(bridge)
            stack.callback(stream.close)
            return bridge, stream

        yield start


def test_a_reader_that_pauses_finds_the_present(watch: Any) -> None:
    _, stream = watch(rate=0, map="ridge.oramap", bots="none")
    paused = stream.latest().tick
    until(lambda: stream.dropped > 300)
    assert stream.latest(0).tick > paused + 300


def test_a_reader_waits_no_longer_than_its_deadline(watch: Any) -> None:
    _, stream = watch(rate=500, planning=1)
    with pytest.raises(PeerTimeout, match=r"no observation after tick 0 within 0\.1 s"):
        stream.latest(0, Deadline(0.1))
    stream.act([_pb.AgentAction()])
    assert stream.latest(0).tick > 0


def test_at_most_16_actions_wait_to_be_sent(watch: Any) -> None:
    _, stream = watch(rate=100)
    stream.latest()
    assert stream.act([_pb.AgentAction()] * 20) >= 4


def test_closing_wakes_a_reader(watch: Any) -> None:
    _, stream = watch(rate=500, planning=1)
    stream.latest()
    closing = call_later(stream.close)
    with pytest.raises(ClosedError):
        stream.latest(5)
    closing.join(PATIENCE_S)
    with pytest.raises(ClosedError):
        stream.act([_pb.AgentAction()])


def test_a_named_session_is_streamed_and_outlives_its_stream(serve: Serve, sessions: Any) -> None:
    serving = serve(rate=300)
    door = sessions(serving)
    first, second = door.create(), door.create()
    door.run(second, 0.0)
    seen = door.latest(second, 5)
    assert seen.ticks > 5
    door.act(second, [Orders([Command(Order.DEPLOY)])])
    while not seen.observation.buildings:
        seen = door.latest(second, seen.ticks)
    door.run(second, None)
    until(lambda: held(serving).state(second).rate_hz is None)
    stands = door.advance(second, 0).ticks
    assert stands >= seen.ticks
    assert door.advance(second, 0).ticks == stands
    assert door.state(first).ticks == 0


_CLIENT = """
import sys
from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport_openra.bridge import Bridge
from lucky_transport_openra.game_stream import GameStreamClient
stream = GameStreamClient(Bridge(Endpoint.parse(sys.argv[1]), Settings()))
print(stream.latest().tick, flush=True)
while True:
    stream.latest(1 << 30)
"""


@pytest.mark.exhaustive
def test_a_killed_client_leaves_nothing_behind_and_the_next_one_plays(serve: Serve, watch: Any) -> None:
    serving = serve(rate=100)
    found = held(serving)
    command = [sys.executable, "-c", _CLIENT, str(serving.endpoints[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline().strip().isdigit()  # the tick of its first look
        assert len(found.ids()) == 1
        client.kill()
    until(lambda: not found.ids())
    _, stream = watch(serving)
    assert stream.latest(0).tick > 0


class _Hiding(grpc.StreamStreamClientInterceptor):
    """Returns an iterator in place of the call, which can then be neither cancelled nor asked how it ended."""

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request_iterator))


def test_a_stream_behind_an_interceptor_acts_and_ends_on_both_sides(
    serve: Serve, sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve(rate=500)
    plain = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **n: grpc.intercept_channel(plain(*a, **n), _Hiding()))
    opened = sessions(serving)
    stream = GameStreamClient(opened.bridge)
    first = stream.latest()
    assert stream.act([_pb.AgentAction(commands=[order(Order.FAST_ADVANCE, ticks=1000)])]) == 0
    assert stream.latest(first.tick + 999).tick >= first.tick + 1000
    stream.close()
    until(lambda: not held(serving).ids())
