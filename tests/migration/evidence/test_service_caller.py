"""A method of any service is called by bytes, with metadata of whoever compares, alike over gRPC and shared memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from lucky_transport.call import Metadata
from lucky_transport.errors import ConfigError
from lucky_transport.messages.methods import Effect
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.catalogue.sources import file_set_from
from lucky_transport_migration.evidence.service_caller import ServiceCaller
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
    outcome = server.clients[0].ask(row, [request], timeout_s=_DEADLINE_S, metadata=(("team", "weather"),))
    assert row.response.FromString(outcome.items[0]).station == "Oslo"
    assert (outcome.code, outcome.details, outcome.transport) == ("OK", "", server.clients[0].transport)
    assert (outcome.headers, outcome.trailing) == ((("weather-version", "1"),), (("weather-days", "3"),))


def test_a_refusal_is_an_outcome_too(server: RunningServer, methods: dict[str, ServiceMethod]) -> None:
    row = methods["GetForecast"]
    outcome = server.clients[0].ask(row, [row.request(station="nowhere").SerializeToString()], timeout_s=_DEADLINE_S)
    assert (outcome.items, outcome.code, outcome.details) == ([], "NOT_FOUND", "no station 'nowhere'")


def test_streams_go_both_ways(server: RunningServer, methods: dict[str, ServiceMethod]) -> None:
    report, chat = methods["Report"], methods["Chat"]
    readings = [report.request(temperature=one).SerializeToString() for one in range(4)]
    summary = server.clients[0].ask(report, readings, timeout_s=_DEADLINE_S)
    assert report.response.FromString(summary.items[0]).readings == 4
    lines = [chat.request(text="a", number=one).SerializeToString() for one in range(3)]
    answers = server.clients[0].ask(chat, lines, timeout_s=_DEADLINE_S).items
    assert [chat.response.FromString(one).number for one in answers] == [1, 2, 3]
    assert server.clients[0].ask(chat, [], timeout_s=_DEADLINE_S).items == []


def test_a_call_is_cancelled_after_so_many_responses(server: RunningServer, methods: dict[str, ServiceMethod]) -> None:
    row = methods["WatchForecast"]
    request = [row.request(days=9).SerializeToString()]
    outcome = server.clients[0].ask(row, request, timeout_s=_DEADLINE_S, cancel_after=2)
    assert (len(outcome.items), outcome.code) == (2, "CANCELLED")
    outcome = server.clients[0].ask(row, request, timeout_s=_DEADLINE_S, cancel_after=10)
    assert (len(outcome.items), outcome.code) == (9, "OK")


ECHO = ServiceMethod("/t.Own/Echo", Effect.READ, "a test")
SECRET = "Bearer a-long-secret"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Serve a method that repeats the request's metadata everywhere."""

    def echo(request: bytes, context: Any) -> bytes:
        sent = [(key, value) for key, value in context.invocation_metadata() if key != "user-agent"]
        context.set_trailing_metadata(tuple((f"echo-{key}", value) for key, value in sent))
        context.set_details(f"told {sent}")
        return repr(sent).encode()

    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler("t.Own", {"Echo": grpc.unary_unary_rpc_method_handler(echo)})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}"
    server.stop(0)


def asked(endpoint: str, given: Metadata, metadata: Metadata = ()) -> Any:
    with ServiceCaller(endpoint, given) as caller:
        return caller.ask(ECHO, [b""], timeout_s=30, metadata=metadata)


def test_they_are_sent_with_every_call_in_place_of_its_own_of_the_same_key(endpoint: str) -> None:
    given = (("team", "lab"), ("key-bin", b"\0\1"))
    found = asked(endpoint, given, (("team", "weather"), ("other", "1")))
    assert found.items == [repr([("other", "1"), *given]).encode()]


def test_an_answer_that_repeats_a_secret_does_not_show_it(endpoint: str) -> None:
    found = asked(endpoint, (("authorization", SECRET), ("key-bin", b"raw-long-bytes")))
    assert found.code == "OK"
    assert "secret" not in repr(found)
    assert "long-bytes" not in repr(found)
    assert ("echo-authorization", "Bearer ***") in found.trailing
    assert len(found.items[0]) == len(repr([("authorization", SECRET), ("key-bin", b"raw-long-bytes")]))


def test_an_answer_is_left_as_it_is_where_what_was_given_is_no_secret(endpoint: str) -> None:
    given = (("team", "lab"), ("a", ""))
    assert asked(endpoint, given).trailing == (("echo-team", "lab"), ("echo-a", ""))


class _TokenCheck(grpc.ServerInterceptor):
    """Refuses what comes without the secret."""

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        if dict(handler_call_details.invocation_metadata).get("authorization") == SECRET:
            return continuation(handler_call_details)
        refuse = grpc.stream_stream_rpc_method_handler(
            lambda _, context: context.abort(grpc.StatusCode.UNAUTHENTICATED, "")
        )
        return refuse


def test_a_server_is_asked_with_them_for_what_describes_it() -> None:
    reflection = pytest.importorskip("grpc_reflection.v1alpha.reflection")
    server = grpc.server(ThreadPoolExecutor(2), interceptors=[_TokenCheck()])
    reflection.enable_server_reflection([reflection.SERVICE_NAME], server)
    target = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        assert file_set_from(target, metadata=(("authorization", SECRET),)) == b""  # of no service of its own
        with pytest.raises(ConfigError, match="UNAUTHENTICATED"):
            file_set_from(target)
    finally:
        server.stop(0)
