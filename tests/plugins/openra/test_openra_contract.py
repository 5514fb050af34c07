"""The openra transport keeps the contract, steps sessions as a batch, and its messages are the bridge's."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")
pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[openra]'")

from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.engines.cartpole import CartPoleWorlds
from lucky_transport.errors import Unimplemented
from lucky_transport.serving import Serving
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.suite import open_reference, outcome
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_openra import _pb
from lucky_transport_openra.skirmish.messages import Command, Observation, Order, Orders
from lucky_transport_openra.wire import BridgeCodec
from tests.plugins.openra.conftest import WORLDS

_MAY_GAIN_NOTHING = "a game may gain nothing in a step"


@pytest.mark.exhaustive
class TestBridge(TransportContract):
    """Games of the skirmish stand for the toy, where a test asks nothing of it that they have not."""

    declares = Capabilities(commands=False, sessions=True)
    inapplicable: Mapping[str, str] = {
        "test_values_out_of_bounds_are_passed_on_and_counted": "a move is one number, and one that is none is refused",
        "test_a_reset_env_has_no_outcome": _MAY_GAIN_NOTHING,
        "test_the_total_reward_is_the_sum_of_its_terms": _MAY_GAIN_NOTHING,
        "test_a_second_driver_is_refused_until_the_first_closes": "each client has games of its own",
        "test_the_next_driver_finds_the_engine_where_the_last_one_left_it": "games end with the client that made them",
    }

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        played = api.make_engine("skirmish:arena", num_envs, **_played(engine, options))
        worlds: Any = played.worlds
        if delay_s := options.get("step_delay_s", 0):
            worlds.create = partial(_slow, worlds.create, delay_s / 10)
        with api.serve(played, "openra://127.0.0.1:0") as serving:
            served = serving.endpoints[0]
            asked = {"service": "bridge", "sessions": num_envs, "map": "arena", "seed": options.get("seed", 0)}
            yield Endpoint(served.scheme, served.address, tuple((key, str(value)) for key, value in asked.items()))

    def open_reference(
        self, engine: str | Engine, num_envs: int = 4, **options: Any
    ) -> AbstractContextManager[Transport]:
        return open_reference("skirmish:arena", num_envs, **_played(engine, options), seed=options.get("seed", 0))

    def check_refused(
        self, client: Transport, reference: Transport, call: Callable[[Transport], object], name: str = ""
    ) -> None:
        expected = outcome(reference, call)
        assert expected != "no error", name
        assert outcome(client, call).replace("'openra'", "'skirmish'") == expected, name


def _slow(create: Callable[..., Any], delay_s: float, *named: Any) -> Any:
    """Return a world each tick of which takes so long."""
    world = create(*named)
    tick = world.tick

    def slowly() -> Any:
        time.sleep(delay_s)
        return tick()

    world.tick = slowly
    return world


def _played(engine: str | Engine, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the skirmish's options for those of a toy; skip the test where there are none."""
    others = set(options) - {"seed", "episode_steps", "step_delay_s"}
    if engine != "toy" or others:
        name = engine if isinstance(engine, str) else type(engine).__name__
        pytest.skip(f"a bridge carries games: no engine {name} with {others or 'any options'}")
    return {"bots": "brutal", "max_ticks": 10 * options.get("episode_steps", 1000)}


def _bridge(serving: Serving, sessions: int) -> Endpoint:
    served = serving.endpoints[0]
    asked = (("service", "bridge"), ("sessions", str(sessions)), ("map", "arena"), ("bots", "brutal"))
    return Endpoint(served.scheme, served.address, asked)


def test_sessions_over_the_bridge_are_stepped_bit_for_bit_as_games_without_a_wire(
    serve: Callable[..., Serving],
) -> None:
    with (
        api.open_transport(_bridge(serve(), 3)) as client,
        open_reference("skirmish:arena", 3, bots="brutal") as reference,
    ):
        assert client.name == "openra"
        assert client.capabilities.sessions
        moves = random_moves(client.spec, 60, seed=4)
        frames, expected = (record_frames(each, moves, reset_ended=True) for each in (client, reference))
        assert frames["observations"].any()
        assert frames["rewards"].any()
        assert first_difference(frames, expected) is None


@pytest.mark.exhaustive
def test_make_starts_an_engine_process_of_its_own() -> None:
    with api.make("skirmish:arena", 2, transport="openra", options={"max_ticks": 100}) as env:
        env.reset(seed=1)
        env.step(env.action_space.sample())
        assert "transport=openra" in repr(env)


#: Message -> the numbers of its fields in the older generation, and in the newer one.
_NUMBERS = {
    "GameObservation": (16, 21),
    "RlMilitary": (11, 11),
    "RlUnitInfo": (19, 20),
    "RlBuildingInfo": (18, 18),
    "Command": (7, 8),
    "GameState": (7, 7),
    "FastAdvanceRequest": (0, 5),
}


@pytest.mark.parametrize("name", _NUMBERS)
def test_fields_are_numbered_without_gaps_and_the_older_generation_knows_the_first(name: str) -> None:
    message: Any = _pb.SERVICE.file.message_types_by_name[name]
    older, newer = _NUMBERS[name]
    numbers = [field.number for field in message.fields]
    assert numbers == list(range(1, newer + 1))
    assert older <= newer


def test_what_a_newer_peer_says_is_passed_over() -> None:
    known = _pb.GameObservation(tick=7)
    unknown = b"\xfa\x3e\x03abc" + b"\xa8\x01\x05"  # field 1007, and a number where we have a list of messages (21)
    seen: Any = _pb.GameObservation.FromString(known.SerializeToString() + unknown)
    assert seen.tick == 7
    assert len(seen.kill_events) == 0


@given(st.binary(max_size=200))
def test_hostile_bytes_are_a_message_or_refused(data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        wire: Any = _pb.AgentAction.FromString(data)
    except DecodeError:
        return
    assert isinstance(BridgeCodec(Observation, Orders).action_from_wire(wire.commands), Orders)


def test_orders_are_the_same_on_the_other_side() -> None:
    codec = BridgeCodec.of(WORLDS, "skirmish")
    orders = Orders([Command(Order.PATROL, 3, 4, -1, 6, "rifle", True, 8)])
    assert codec.action_from_wire(codec.action_to_wire(orders).commands) == orders


def test_worlds_that_speak_of_something_else_are_refused_by_name() -> None:
    with pytest.raises(Unimplemented, match=r"engine 'cartpole' has no bridge messages: .* is not in GameObservation"):
        BridgeCodec.of(CartPoleWorlds(), "cartpole")
