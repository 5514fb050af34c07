"""Tests of `TransportContract`: services that are switched off, and streams with a limit, while the engine runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from lucky_transport.errors import Unimplemented
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    GetSceneInfoRequest,
    GetTelemetrySchemaRequest,
    ListEntitiesRequest,
    StepRequest,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import Method, method
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite, outcome_when, zeros
from lucky_transport.transport import Stream, Transport

_SCENE = method("SceneService/GetSceneInfo")
_ENTITIES = method("SceneService/ListEntities")
_NAMES = method("TelemetryService/GetTelemetrySchema")
_TELEMETRY = method("TelemetryService/StreamTelemetry")
_SCHEMA = method("AgentService/GetAgentSchema")
_STEP = method("AgentService/Step")


@needs("commands")
class SwitchContract(TransportSuite):
    """The part of `TransportContract` that is about `lucky-transport services`."""

    def test_a_service_that_is_off_is_unimplemented_and_says_how_it_is_switched_on(self) -> None:
        with self.serve() as endpoint, self.connect(endpoint) as client:
            first = client.call(_SCENE, GetSceneInfoRequest())
            self.change_services(endpoint, off=["SceneService"])
            calls: dict[Method, Callable[[], object]] = {
                _SCENE: lambda: client.call(_SCENE, GetSceneInfoRequest()),
                _ENTITIES: lambda: client.begin(_ENTITIES, ListEntitiesRequest(True, True)).result(),
            }
            for row, call in calls.items():
                with pytest.raises(Unimplemented, match=_refusal(row)):
                    call()
            self.check_alive(client)
            client.step(zeros(client))
            self.change_services(endpoint, on=["Scene*"])
            assert client.call(_SCENE, GetSceneInfoRequest()) == first

    @needs("streams")
    def test_a_stream_ends_with_unimplemented_once_its_service_is_off(self) -> None:
        with self.serve() as endpoint, self.connect(endpoint) as client:
            stream, others = _open(client, 200), _open(client, 200)
            next(stream)
            next(others)
            self.change_services(endpoint, off=["TelemetryService"])
            for each in (stream, others, _open(client, 200)):
                with pytest.raises(Unimplemented, match=_refusal(_TELEMETRY)):
                    _to_the_end(each)
            with pytest.raises(Unimplemented, match=_refusal(_NAMES)):
                client.call(_NAMES, GetTelemetrySchemaRequest())
            self.check_alive(client)
            self.change_services(endpoint, on=["TelemetryService"])
            next(_open(client, 200))

    @needs("streams")
    def test_a_stream_that_waits_for_its_next_item_ends_too(self) -> None:
        with self.serve() as endpoint, self.connect(endpoint) as client:
            stream = _open(client, 1)
            next(stream)
            found = outcome_when(lambda: self.change_services(endpoint, off=["Telemetry*"]), stream, _to_the_end)
            assert re.match(f"Unimplemented: {_refusal(_TELEMETRY)}", found), found

    @needs("streams")
    @pytest.mark.parametrize(("asked", "limit"), [(1000, 25), (25, 1000)])
    def test_a_stream_gives_what_its_client_asks_for_and_no_more_than_its_limit(self, asked: int, limit: int) -> None:
        with self.serve() as endpoint, self.connect(endpoint) as client:
            self.change_services(endpoint, fps={"TelemetryService/StreamTelemetry": limit})
            began = time.monotonic()
            stream = _open(client, asked)
            for _ in range(6):
                next(stream)
            assert time.monotonic() - began >= 5 / 25  # a busy machine makes it longer

    def test_whatever_is_off_the_engine_is_stepped(self) -> None:
        with self.serve() as endpoint, self.connect(endpoint) as client:
            self.change_services(endpoint, off=["*"])
            for _ in range(3):
                client.step(zeros(client))
            with pytest.raises(Unimplemented, match=_refusal(_SCHEMA)):
                client.call(_SCHEMA, GetAgentSchemaRequest())

    def test_a_client_that_steps_single_agents_steps_on_while_their_service_is_off(self) -> None:
        with self.serve() as endpoint, self.connect(endpoint) as client:
            self.change_services(endpoint, off=["AgentService"])
            assert client.call(_STEP, StepRequest("agent_1")).success


def _refusal(row: Method) -> str:
    """Return a pattern of the error's text."""
    service = row.service.rpartition(".")[2]
    return (
        f"engine 'toy' does not answer {row.name}: {service} is switched off; its user switches it on: "
        f"(lucky-transport services .* --on {service}|Serving.*{service})"
    )


def _open(client: Transport, fps: int) -> Stream:
    return client.stream(_TELEMETRY, StreamTelemetryRequest(fps))


def _to_the_end(stream: Stream) -> None:
    for _ in stream:
        pass
