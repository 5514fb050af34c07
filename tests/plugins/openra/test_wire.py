"""The bridge's messages: names, numbers, and what becomes of those of another version."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[openra]'")
pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.engines.cartpole import CartPoleWorlds
from lucky_transport.errors import Unimplemented
from lucky_transport_openra import _pb
from lucky_transport_openra.skirmish.messages import Command, Observation, Order, Orders
from lucky_transport_openra.skirmish.world import SkirmishWorlds
from lucky_transport_openra.wire import BridgeCodec

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


def test_an_observation_is_the_same_on_the_other_side() -> None:
    codec = BridgeCodec.of(SkirmishWorlds(), "skirmish")
    world = SkirmishWorlds().create("arena", 3, {"bots": "brutal"})
    for _ in range(1200):
        if not world.is_over:
            world.tick()
    seen = world.observe()
    wire: Any = _pb.GameObservation.FromString(codec.observation_to_wire(seen).SerializeToString())
    assert codec.observation_from_wire(wire) == seen
    orders = Orders([Command(Order.PATROL, 3, 4, -1, 6, "rifle", True, 8)])
    assert codec.action_from_wire(codec.action_to_wire(orders).commands) == orders


def test_worlds_that_speak_of_something_else_are_refused_by_name() -> None:
    with pytest.raises(Unimplemented, match=r"engine 'cartpole' has no bridge messages: .* is not in GameObservation"):
        BridgeCodec.of(CartPoleWorlds(), "cartpole")
