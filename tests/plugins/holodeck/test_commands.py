"""Commands are read as every client of the original writes them, and nothing else is taken for one; which dialect."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ConfigError, RemoteProtocolError, SpecError
from lucky_transport_holodeck.commands import (
    BUFFER_BYTES,
    KINDS,
    HolodeckCommand,
    decode,
    encode,
    problem_of,
)
from lucky_transport_holodeck.dialect import is_holoocean_command, is_holoocean_scenario
from lucky_transport_holodeck.scenario import load_scenario

#: A batch as client 0.3.1 writes it, to the blank.
_ORIGINAL = (
    '{"commands": [{ "type": "SpawnAgent", "params": [{ "value": 1.5 },{ "value": 0 },{ "value": 0 },{ "value": 0 },'
    '{ "value": 0 },{ "value": 90 },{ "value": "UAV" },{ "value": "uav0" },{ "value": 1 }]},'
    '{ "type": "AddSensor", "params": [{ "value": "uav0" },{ "value": "eye" },{ "value": "RGBCamera" },'
    '{ "value": "{\\"CaptureWidth\\": 64}" },{ "value": "" },{ "value": 0 },{ "value": 0 },{ "value": 0 },'
    '{ "value": 0 },{ "value": 0 },{ "value": 0 }]}]}0'
)


def test_a_batch_of_the_original_client_is_understood() -> None:
    spawn, add = decode(_ORIGINAL.encode())
    assert spawn == HolodeckCommand("SpawnAgent", ("UAV", "uav0"), (1.5, 0, 0, 0, 0, 90, 1))
    assert add.strings == ("uav0", "eye", "RGBCamera", '{"CaptureWidth": 64}', "")
    assert problem_of(spawn) == problem_of(add) == ""


def test_the_tail_of_a_longer_batch_is_not_read() -> None:
    short = encode([HolodeckCommand("RenderViewport", (), (1.0,))])
    block = short + _ORIGINAL.encode()[len(short) :]
    assert decode(block) == [HolodeckCommand("RenderViewport", (), (1.0,))]


def test_a_batch_ends_with_the_sign_that_the_real_engine_waits_for() -> None:
    assert encode([]).decode() == '{"commands": []}0'


def test_more_than_the_block_holds_is_refused() -> None:
    with pytest.raises(SpecError, match=str(BUFFER_BYTES)):
        encode([HolodeckCommand("CustomCommand", ("x" * BUFFER_BYTES,))])


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_json_cannot_carry_are_refused_before_they_are_sent(number: float) -> None:
    with pytest.raises(SpecError, match="finite"):
        HolodeckCommand("TeleportCamera", (), (0, 0, number, 0, 0, 0))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 50,
        "[]",
        '{"commands": 5}',
        '{"commands": [{"type": "X"}]}',
        '{"commands": [{"type": 7, "params": []}]}',
        '{"commands": [{"type": "X", "params": [{"value": inf}]}]}0',
        '{"commands": [{"type": "X", "params": [{"value": Infinity}]}]}0',
        '{"commands": [{"type": "X", "params": [{"value": "say "hi""}]}]}0',
        "[" * 5000,
    ],
)
def test_what_is_no_batch_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        decode(text.encode())


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_be_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert all(isinstance(command, HolodeckCommand) for command in decode(data))


_json = st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=3), lambda s: st.lists(s, max_size=3))


@given(st.fixed_dictionaries({"commands": st.lists(st.fixed_dictionaries({"type": _json, "params": _json}))}))
def test_no_json_does_anything_but_be_read_or_refused(batch: object) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert all(isinstance(problem_of(command), str) for command in decode(json.dumps(batch).encode()))


@pytest.mark.parametrize("numbers", [7, 8])
def test_a_spawn_has_the_numbers_of_either_generation_of_clients(numbers: int) -> None:
    assert problem_of(HolodeckCommand("SpawnAgent", ("UAV", "a"), (0.0,) * numbers)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_with_the_wrong_number_of_parameters_is_named(kind: str) -> None:
    strings, numbers = KINDS[kind].strings, KINDS[kind].numbers
    fitting = HolodeckCommand(kind, ("x",) * strings[0], (0.0,) * numbers[0])
    assert problem_of(fitting) == ""
    if strings[0]:
        assert "strings" in problem_of(HolodeckCommand(kind, ("x",) * (strings[0] - 1), fitting.numbers))
    if numbers[0]:
        assert "numbers" in problem_of(HolodeckCommand(kind, fitting.strings, (0.0,) * (numbers[0] - 1)))


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_a_scenario_that_is_nested_too_deeply_is_refused_by_name(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text("[" * depth + "1" + "]" * depth)
    with pytest.raises(ConfigError, match=f"{path}: ValueError: nested deeper than 64 levels"):
        load_scenario(path)


# which of the two generations it is

_PLAIN: dict[str, Any] = {
    "world": "w",
    "agents": [{"agent_name": "a", "agent_type": "UavAgent", "sensors": [{"sensor_type": "RGBCamera"}]}],
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"weather": {"hour": 7}, "window_width": 3}, False),
        ({"ticks_per_sec": 30}, True),
        ({"octree_min": 0.1}, True),
        ({"agents": [{"agent_type": "TorpedoAUV", "sensors": []}]}, True),
        ({"agents": [{"agent_type": "UavAgent", "sensors": [{"sensor_type": "GPSSensor"}]}]}, True),
        ({"agents": [{"agent_type": "UavAgent", "sensors": [{"sensor_type": "RGBCamera", "Hz": 3}]}]}, True),
        ({"agents": []}, False),
    ],
)
def test_a_scenario_is_holooceans_when_something_in_it_is(more: dict[str, Any], expected: bool) -> None:
    assert is_holoocean_scenario(_PLAIN | more) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (HolodeckCommand("SpawnAgent", ("UAV", "a"), (0.0,) * 7), False),
        (HolodeckCommand("SpawnAgent", ("SurfaceVessel", "a"), (0.0,) * 7), True),
        (HolodeckCommand("SpawnAgent"), False),
        (HolodeckCommand("AddSensor", ("a", "s", "RGBCamera", "{}", ""), (0.0,) * 6), False),
        (HolodeckCommand("AddSensor", ("a", "s", "RGBCamera", '{"TicksPerCapture": 1}', ""), (0.0,) * 6), True),
        (HolodeckCommand("AddSensor", ("a", "s", "DVLSensor", "{}", ""), (0.0,) * 6), True),
        (HolodeckCommand("DebugDraw", (), (0.0,) * 11), False),
        (HolodeckCommand("DebugDraw", (), (0.0,) * 12), True),
        (HolodeckCommand("AdjustTPS", (), (30.0,)), True),
        (HolodeckCommand("CustomCommand", ("SetWeather", "rain")), False),
    ],
)
def test_a_client_is_holooceans_when_a_command_is(command: HolodeckCommand, expected: bool) -> None:
    assert is_holoocean_command(command) is expected
