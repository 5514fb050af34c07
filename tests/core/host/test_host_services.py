"""Which services an engine answers: its own, the host's, those of plugins in other messages; which are off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport.call import Call
from lucky_transport.errors import ClosedError, ConfigError, TransportError, Unimplemented, UnknownName
from lucky_transport.hookspecs import ForeignServicesInfo
from lucky_transport.host import foreign
from lucky_transport.host.foreign import InstalledServices
from lucky_transport.host.host import Host
from lucky_transport.host.service_switch import ServiceSwitch
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    NegotiateTaskRequest,
    ObservationContract,
    ObservationTermRequest,
    RewardContract,
    RewardTermRequest,
    TaskContract,
)
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.process import EngineProcess, unique_name
from tests.core.host.conftest import Parrots
from tests.support.scripted_engine import ScriptedEngine

AGENT_SCHEMA = method("AgentService/GetAgentSchema")
MANIFEST = method("AgentService/GetCapabilityManifest")
VALIDATE = method("AgentService/ValidateTaskContract")
NEGOTIATE = method("AgentService/NegotiateTask")


@pytest.mark.parametrize(("name", "found"), [("", "agent_0"), ("agent_2", "agent_2")])
def test_the_schema_tells_sizes_and_names_of_an_agent(host: Host, name: str, found: str) -> None:
    schema = host.call(AGENT_SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.agent_name, schema.observation_size, schema.action_size) == (found, 8, 2)
    assert schema.action_names == ["a_0", "a_1"]


@pytest.mark.parametrize("name", ["agent_3", "agent_x", "robot", "agent_-1", "agent_٣"])
def test_the_schema_of_an_unknown_agent_has_no_sizes(host: Host, name: str) -> None:
    schema = host.call(AGENT_SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.observation_size, schema.action_size) == (0, 0)


def test_the_manifest_lists_what_a_contract_may_ask_for(host: Host) -> None:
    manifest = host.call(MANIFEST, MANIFEST.request()).manifest
    assert [term.name for term in manifest.rewards] == ["alive", "centred"]
    assert [term.name for term in manifest.terminations] == ["out_of_range", "time_out"]
    assert manifest.robot_info.name == "toy"


def _contract(reward: str, observation: str = "observation", optional: str = "observation") -> TaskContract:
    return TaskContract(
        task_id="walk",
        observations=ObservationContract(
            required=[ObservationTermRequest(name=observation)], optional=[ObservationTermRequest(name=optional)]
        ),
        rewards=RewardContract(engine_terms=[RewardTermRequest(name=reward)]),
    )


def test_a_contract_that_fits_is_negotiated(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("alive")))
    assert answer.success
    assert answer.session.reward_terms == ["alive"]
    assert [(slot.offset, slot.size) for slot in answer.session.observation_layout] == [(0, 8)]


def test_a_contract_that_does_not_fit_is_refused_with_every_finding_and_the_nearest_name(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("aliv", observation="camera")))
    assert not answer.success
    assert "unknown reward term 'aliv'; the engine offers: alive, centred; did you mean 'alive'?" in answer.message
    assert "unknown observation term 'camera'" in answer.message


def test_an_unknown_optional_term_is_a_warning(host: Host) -> None:
    result = host.call(VALIDATE, VALIDATE.request(_contract("alive", optional="touch"))).result
    assert (result.resolved_optionals, result.unresolved_optionals) == ([], ["touch"])
    assert result.is_valid
    assert [warning.term_name for warning in result.warnings] == ["touch"]


@pytest.mark.parametrize("name", ["GetAgentSchema", "Step"])
def test_an_engine_may_replace_what_the_host_would_answer(name: str) -> None:
    row = method(f"AgentService/{name}")
    host = Host(ScriptedEngine(services={row.name: lambda request: "its own"}))
    assert host.call(row, row.request()) == "its own"
    assert row.name not in host.agents.answered


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> InstalledServices:
    """What is installed: a plugin whose package is missing, one that breaks, and the parrots."""
    infos = {
        name: ForeignServicesInfo(name, installed, "", extra="grpc")
        for name, installed in (
            ("absent", "no_module_of_this_name:Services"),
            ("broken", f"{__name__}:BROKEN"),
            ("parrots", f"{Parrots.__module__}:Parrots"),
        )
    }
    monkeypatch.setattr(foreign, "registry", lambda: SimpleNamespace(foreign_services=infos))
    monkeypatch.setattr(Parrots, "made", [])
    host: Any = SimpleNamespace(spec=SimpleNamespace(engine="zoo"))
    return InstalledServices(host)


def ask(installed: InstalledServices, path: str) -> list[str]:
    answers: list[str] = []
    call: Any = SimpleNamespace(path=path, name=path, payload="squawk", finish=answers.append)
    handler = installed.handler(path)
    assert handler is not None
    handler(call)
    return answers


def test_nothing_is_loaded_before_a_call_and_everything_once(installed: InstalledServices) -> None:
    installed.leave("client 7")
    assert Parrots.made == []
    assert [ask(installed, "/zoo.Parrot/Say") for _ in range(2)] == [["squawksquawk"]] * 2
    (parrots,) = Parrots.made
    installed.leave("client 8")
    installed.close()
    assert (parrots.left, parrots.closed) == (["client 8"], True)


def test_a_method_of_no_plugin_is_refused_by_the_first_call_and_not_found_next(installed: InstalledServices) -> None:
    with pytest.raises(Unimplemented, match=r"the engine does not know /zoo\.Parrot/Sing"):
        ask(installed, "/zoo.Parrot/Sing")
    assert installed.handler("/zoo.Parrot/Sing") is None


def test_a_call_that_comes_while_the_engine_closes_loads_nothing(installed: InstalledServices) -> None:
    installed.close()
    with pytest.raises(ClosedError):
        ask(installed, "/zoo.Parrot/Say")
    assert Parrots.made == []


@pytest.mark.exhaustive
def test_an_engine_over_shared_memory_starts_without_grpc() -> None:
    pytest.importorskip("grpc")
    process = EngineProcess("toy", [f"shm://{unique_name()}"])
    try:
        assert "cygrpc" not in Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.stop()


TELEMETRY = method("TelemetryService/StreamTelemetry")
JOINTS = method("MujocoService/StreamJointState")


@pytest.fixture
def switch() -> ServiceSwitch:
    """The switch of an engine with all methods of some services."""
    offered = {"AgentService", "MujocoService", "SceneService", "TelemetryService", "BatchService"}
    return ServiceSwitch("toy", [row for row in METHODS if row.service.rpartition(".")[2] in offered])


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
    closed: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append("items")

    stream: Any = switch.stream(TELEMETRY, Call("test"), items)
    next(stream)
    stream.close()
    assert closed == ["items"]
    switch.change(off=["*"])  # finds no stream of it any more


def test_a_limit_holds_whatever_a_handler_does_and_loses_no_item(switch: ServiceSwitch) -> None:
    switch.change(fps={"*/StreamTelemetry": 500})
    call = Call("test")
    stream = switch.stream(TELEMETRY, call, itertools.count)
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
