"""A method of any service is called by bytes, alike over gRPC and shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

_DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def methods(weather: WeatherPrograms) -> dict[str, ServiceMethod]:
    return {
        one.name.rpartition("/")[2]: one
        for one in methods_in(weather.descriptor_set.read_bytes(), str(weather.descriptor_set))
    }


@pytest.fixture(scope="module", params=["grpc", "shm"])
def server(request: pytest.FixtureRequest, weather: WeatherPrograms) -> Iterator[RunningServer]:
    with RunningServer(ServerCommand(" ".join(weather.server("{port}"))), request.param) as found:
        yield found


def test_a_unary_answer_has_items_headers_and_trailing_metadata(
    server: RunningServer, methods: dict[str, ServiceMethod]
) -> None:
    row = methods["GetForecast"]
    request = row.request(station="Oslo", days=3).SerializeToString()
    outcome = server.caller.ask(row, [request], timeout_s=_DEADLINE_S, metadata=(("team", "weather"),))
    assert row.response.FromString(outcome.items[0]).station == "Oslo"
    assert (outcome.code, outcome.details, outcome.transport) == ("OK", "", server.caller.transport)
    assert (outcome.headers, outcome.trailing) == ((("weather-version", "1"),), (("weather-days", "3"),))


def test_a_refusal_is_an_outcome_too(server: RunningServer, methods: dict[str, ServiceMethod]) -> None:
    row = methods["GetForecast"]
    outcome = server.caller.ask(row, [row.request(station="nowhere").SerializeToString()], timeout_s=_DEADLINE_S)
    assert (outcome.items, outcome.code, outcome.details) == ([], "NOT_FOUND", "no station 'nowhere'")


def test_streams_go_both_ways(server: RunningServer, methods: dict[str, ServiceMethod]) -> None:
    report, chat = methods["Report"], methods["Chat"]
    readings = [report.request(temperature=one).SerializeToString() for one in range(4)]
    summary = server.caller.ask(report, readings, timeout_s=_DEADLINE_S)
    assert report.response.FromString(summary.items[0]).readings == 4
    lines = [chat.request(text="a", number=one).SerializeToString() for one in range(3)]
    answers = server.caller.ask(chat, lines, timeout_s=_DEADLINE_S).items
    assert [chat.response.FromString(one).number for one in answers] == [1, 2, 3]
    assert server.caller.ask(chat, [], timeout_s=_DEADLINE_S).items == []


def test_a_call_is_cancelled_after_so_many_responses(server: RunningServer, methods: dict[str, ServiceMethod]) -> None:
    row = methods["WatchForecast"]
    request = [row.request(days=9).SerializeToString()]
    outcome = server.caller.ask(row, request, timeout_s=_DEADLINE_S, cancel_after=2)
    assert (len(outcome.items), outcome.code) == (2, "CANCELLED")
    outcome = server.caller.ask(row, request, timeout_s=_DEADLINE_S, cancel_after=10)
    assert (len(outcome.items), outcome.code) == (9, "OK")
