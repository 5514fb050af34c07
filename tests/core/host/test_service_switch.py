"""Which services are answered, and how fast streams go, by names as a person writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport.call import Call
from lucky_transport.errors import ClosedError, ConfigError, TransportError, Unimplemented, UnknownName
from lucky_transport.host.service_switch import ServiceSwitch, parse_rates
from lucky_transport.messages.methods import METHODS, method

TELEMETRY = method("TelemetryService/StreamTelemetry")
JOINTS = method("MujocoService/StreamJointState")


def switch_of(*services: str) -> ServiceSwitch:
    """Return the switch of an engine with all methods of these services, and BatchService."""
    offered = {*services, "BatchService"}
    return ServiceSwitch("toy", [row for row in METHODS if row.service.rpartition(".")[2] in offered])


@pytest.fixture
def switch() -> ServiceSwitch:
    return switch_of("AgentService", "MujocoService", "SceneService", "TelemetryService")


def off(switch: ServiceSwitch) -> list[str]:
    return [name.rpartition(".")[2] for name, is_on in switch.services.items() if not is_on]


@pytest.mark.parametrize(
    "text", ["hazel.rpc.SceneService", "SceneService", "Scene*", "hazel.rpc.Scene*", "[S]ceneService"]
)
def test_a_service_goes_by_its_full_name_its_short_one_or_a_pattern(switch: ServiceSwitch, text: str) -> None:
    switch.change(off=[text])
    assert off(switch) == ["SceneService"]
    switch.change(on=[text])
    assert off(switch) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"off": ["SceneService", "SceneServce"]}, "service .* called 'SceneServce'; did you mean 'SceneService'[?]"),
        ({"on": ["LidarService"]}, "service .* is called 'LidarService'; .*its services: AgentService, "),
        ({"off": ["Sceen*"]}, "service .* fits 'Sceen[*]'"),
        ({"fps": {"SceneService": 5}}, "stream .* is called 'SceneService'; .*its streams: AgentService/Stream"),
    ],
)
def test_a_name_that_fits_nothing_is_refused_with_the_nearest_and_nothing_changes(
    switch: ServiceSwitch, change: dict[str, Any], text: str
) -> None:
    with pytest.raises(UnknownName, match=f"^no {text}"):
        switch.change(**change)
    assert off(switch) == []


def test_a_service_that_this_engine_lacks_may_be_left_out(switch: ServiceSwitch) -> None:
    switch.change(off=["LidarService"])
    assert off(switch) == []


def test_what_cannot_be_is_refused(switch: ServiceSwitch) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"off": ["BatchService"]}, "BatchService cannot be switched off: it carries the steps"),
        ({"off": ["Scene*"], "on": ["SceneService"]}, "hazel.rpc.SceneService cannot be switched on and off at once"),
        *(({"fps": {"TelemetryService": hz}}, "items a second") for hz in (-1, float("nan"), float("inf"), True, "5")),
    ]
    for change, text in wrong:
        with pytest.raises(ConfigError, match=text):
            switch.change(**change)
    assert off(switch) == []
    assert not any(switch.streams.values())


def test_an_engine_begins_with_what_is_chosen(switch: ServiceSwitch) -> None:
    switch.choose(["Scene*", "TelemetryService"], ["TelemetryService"], {"*/StreamJointState": 3})
    assert off(switch) == ["AgentService", "MujocoService", "TelemetryService"]
    assert switch.streams[JOINTS.name] == 3


def test_all_that_can_be_switched_off_at_once_leaves_the_steps(switch: ServiceSwitch) -> None:
    switch.change(off=["*"])
    assert off(switch) == ["AgentService", "MujocoService", "SceneService", "TelemetryService"]
    left = {row.name for row in METHODS if row.name not in switch.refused and row.service == "hazel.rpc.AgentService"}
    assert left == {"/hazel.rpc.AgentService/Step", "/hazel.rpc.AgentService/ResetAgent"}


def test_a_refusal_names_engine_method_and_command(switch: ServiceSwitch) -> None:
    switch.command = "lucky-transport services shm://demo"
    switch.change(off=["TelemetryService"])
    text = (
        "engine 'toy' does not answer /hazel.rpc.TelemetryService/StreamTelemetry: TelemetryService is switched off; "
        "its user switches it on: lucky-transport services shm://demo --on TelemetryService"
    )
    with pytest.raises(Unimplemented, match=re.escape(text)):
        switch.check(TELEMETRY)
    switch.check(JOINTS)


def test_the_switch_of_an_engine_that_ends_refuses_everything_for_good(switch: ServiceSwitch) -> None:
    step = method("AgentService/Step")
    switch.check(step)
    switch.close()
    for refused in (lambda: switch.check(step), lambda: switch.change(on=["*"]), lambda: switch.check(TELEMETRY)):
        with pytest.raises(ClosedError, match="the engine is closing"):
            refused()


def test_limits_stay_until_they_are_changed_and_0_takes_one_away(switch: ServiceSwitch) -> None:
    switch.change(fps={"TelemetryService": 5, "MujocoService/StreamJointState": 7})
    switch.change(off=["SceneService"])
    assert (switch.streams[TELEMETRY.name], switch.streams[JOINTS.name]) == (5, 7)
    switch.change(fps={"*/StreamTelemetry": 0})
    assert (switch.streams[TELEMETRY.name], switch.streams[JOINTS.name]) == (0, 7)


# --- streams ---


class Closing:
    """Items whose end is noticed."""

    def __init__(self) -> None:
        self.closed = 0
        self._items = iter(range(1000))

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return next(self._items)

    def close(self) -> None:
        self.closed += 1


def test_what_a_handler_raises_as_its_service_is_switched_off_is_the_refusal(switch: ServiceSwitch) -> None:
    call = Call("test")

    def items() -> Iterator[int]:
        yield 0
        while call.wait(0.01):
            pass
        raise TransportError("the handler was cancelled")

    stream = switch.stream(TELEMETRY, call, items)
    assert next(stream) == 0
    switch.change(off=["TelemetryService"])
    assert call.is_over
    with pytest.raises(Unimplemented, match="is switched off"):
        next(stream)


def test_a_stream_that_its_reader_leaves_closes_what_the_handler_returned(switch: ServiceSwitch) -> None:
    items = Closing()
    stream: Any = switch.stream(TELEMETRY, Call("test"), lambda: items)
    next(stream)
    stream.close()
    assert items.closed == 1
    switch.change(off=["*"])  # finds no stream of it any more


def test_a_limit_holds_whatever_a_handler_does_and_loses_no_item(switch: ServiceSwitch) -> None:
    switch.change(fps={"*/StreamTelemetry": 500})
    call = Call("test")
    stream = switch.stream(TELEMETRY, call, Closing)
    assert [next(stream) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert call.held_s > 0


def test_ticks_that_a_limit_holds_back_are_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr("lucky_transport.call.time", SimpleNamespace(monotonic=lambda: now.s))
    call = Call("test")
    ticks = call.ticks(10)
    assert next(ticks) == 0
    now.s, call.held_s = 100.125, 100.0
    assert (next(ticks), call.dropped) == (1, 0)
    now.s += 0.5
    assert (next(ticks), call.dropped) == (6, 4)


@pytest.mark.parametrize("text", ["", "TelemetryService", "=5", "TelemetryService=fast"])
def test_a_limit_is_a_name_and_a_number(text: str) -> None:
    with pytest.raises(ConfigError, match="write NAME=RATE"):
        parse_rates([text])


def test_limits_are_read_by_name() -> None:
    assert parse_rates(["a/b=5", "C*=0.5"]) == {"a/b": 5.0, "C*": 0.5}
