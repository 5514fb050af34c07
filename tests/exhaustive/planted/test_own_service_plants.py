"""Each difference planted in the answers of a team's own service is found under `staged`, and named.

The service has one servicer, served over gRPC and in shared memory; it answers wrong only in shared memory. A program
makes one call of each read, and the evidence must name method, aspect and place of what was planted.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.process import unique_name
from lucky_transport_migration.evidence.call_comparison import BEYOND
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, Evidence, read_folder
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.router import ProcessRouter
from tests.support.waiting import PATIENCE_S
from tests.support.weather import SERVICE, WeatherPrograms

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs  # noqa: E402 - needs grpc
from lucky_transport_stubs.staged import channels  # noqa: E402

_GET, _WATCH = "GetForecast", "WatchForecast"

_STAGES = '[stages]\ndefault = "shadow"\n[stages.effects]\n"Weather/Watch*" = "read"\n[gate]\ndemote = false\n'


@dataclass(frozen=True)
class Planted:
    """What is found of one difference. change: what it does to a forecast, None where the server has it by name."""

    method: str
    aspect: str
    where: str
    change: Callable[[Any], object] | None = None


def _unknown(forecast: Any) -> None:
    forecast.MergeFromString(b"\xa8\x06\x01")  # field 101


PLANTS = {
    "value": Planted(_GET, "item", "reading.temperature"),
    "int64": Planted(_GET, "item", "issued_ns"),
    "nan": Planted(_GET, "item", "normals"),
    "enum": Planted(_GET, "item", "sky"),
    "map": Planted(_GET, "item", "normals"),
    "default": Planted(_GET, "item", "chance"),
    "oneof": Planted(_GET, "item", "frost_level"),
    "order": Planted(_WATCH, "item", "[0]"),
    "dropped": Planted(_WATCH, "count", "items"),
    "added": Planted(_WATCH, "count", "items"),
    "status": Planted(_GET, "code", "code"),
    "details": Planted(_GET, "details", "details"),
    "trailing": Planted(_GET, "trailing", "weather-days"),
    "initial": Planted(_GET, "headers", "weather-version"),
    "text": Planted(_GET, "item", "station", lambda one: setattr(one, "station", "oslo")),
    "bytes": Planted(_GET, "item", "reading.raw", lambda one: setattr(one.reading, "raw", b"\x00\x02")),
    "last bit": Planted(_GET, "item", "reading.humidity", lambda one: setattr(one.reading, "humidity", 0.30000004)),
    "repeated order": Planted(_GET, "item", "reading.notes", lambda one: one.reading.notes.reverse()),
    "absent message": Planted(_GET, "item", "reading.place", lambda one: one.reading.ClearField("place")),
    "nested deep": Planted(_GET, "item", "reading.places", lambda one: setattr(one.reading.places[3], "latitude", 1.0)),
    "unknown field": Planted(_GET, "item", "", _unknown),
}


@pytest.fixture(scope="module")
def modules(weather: WeatherPrograms) -> Iterator[tuple[Any, Any, Any]]:
    """The team's server, and the modules made of its .proto."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(weather.folder))
        spec = importlib.util.spec_from_file_location("weather_server", weather.folder / "server.py")
        assert spec is not None
        assert spec.loader is not None
        server = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(server)
        yield server, sys.modules["weather_pb2"], sys.modules["weather_pb2_grpc"]


#: Makes one call of each read with a plant and returns the evidence; `leaves`: the stream is left after an item.
See = Callable[..., list[Evidence]]


@pytest.fixture
def see(modules: tuple[Any, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[See]:
    weather_server, pb2, pb2_grpc = modules
    monkeypatch.delenv("LUCKY_TRANSPORT", raising=False)
    (tmp_path / "lucky_transport.toml").write_text(_STAGES)

    class Server(weather_server.Weather):
        change: Callable[[Any], object] | None = None

        def GetForecast(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
            forecast = super().GetForecast(request, context)
            if self.change is not None and type(context).__module__.startswith("lucky_transport"):
                self.change(forecast)
            return forecast

    def serve(stack: ExitStack, server: Any, servicer: Any, endpoint: str) -> int:
        pb2_grpc.add_WeatherServicer_to_server(servicer, server)
        port = server.add_insecure_port(endpoint)
        server.start()
        stack.callback(lambda: server.stop(0).wait(PATIENCE_S))
        return port

    def see(name: str, planted: Planted | None = None, *, leaves: bool = False) -> list[Evidence]:
        servicer = Server("" if planted is None or planted.change else name)
        servicer.change = planted and planted.change
        endpoint = f"shm://{unique_name()}"
        port = serve(stack, grpc.server(ThreadPoolExecutor(4)), servicer, "127.0.0.1:0")
        serve(stack, lucky_transport_stubs.server(ThreadPoolExecutor(4)), servicer, endpoint)
        router = ProcessRouter(EvidencePolicy(tmp_path, tell=lambda _: None))
        stack.callback(router.close)
        monkeypatch.setattr(channels, "open_router", lambda: router)
        target = f"127.0.0.1:{port}"
        makers = {
            "grpc": lambda: grpc.insecure_channel(target),
            "shm": lambda: lucky_transport_stubs.channel(endpoint),
        }
        channel = channels.open_channel(target, {side: make() for side, make in makers.items()}, makers, None)
        stack.callback(channel.close)
        stub = pb2_grpc.WeatherStub(channel)
        place = pb2.Place(name="Oslo", latitude=59.9)
        like = pb2.Reading(
            temperature=1.5, humidity=0.3, raw=b"\x00\x01", notes=["a", "b"], place=place, places={3: place}
        )
        request = pb2.ForecastRequest(station="Oslo", days=3, like=like)
        stub.GetForecast(request)
        router.workers.drain(Deadline(PATIENCE_S))
        with suppress(grpc.RpcError):
            stub.GetForecast(pb2.ForecastRequest(station="nowhere"))
        router.workers.drain(Deadline(PATIENCE_S))
        items = stub.WatchForecast(request)
        if leaves:
            next(items)
            items.cancel()
        else:
            list(items)
        router.endings.drain(Deadline(PATIENCE_S))
        router.workers.drain(Deadline(PATIENCE_S))
        channel.close()
        router.close()
        return list(read_folder(tmp_path / "lucky-evidence"))

    with ExitStack() as stack:
        yield see


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_difference_is_found_and_named(name: str, see: See) -> None:
    planted = PLANTS[name]
    seen = [one for one in see(name, planted) if one.method == f"/{SERVICE}/{planted.method}"]
    [found, *_] = [one for one in seen if one.verdict != EQUAL]
    assert (found.verdict, found.aspect) == (DIFFERENT, planted.aspect), found
    assert planted.where in found.where, found
    assert found.method in found.sentence
    assert all(str(value) in found.sentence for value in found.values.values() if not isinstance(value, str))


def test_without_a_plant_all_is_equal(see: See) -> None:
    seen = see("")
    assert [one.method.rpartition("/")[2] for one in seen] == [_GET, _GET, _WATCH]
    assert {one.verdict for one in seen} == {EQUAL}
    assert all(set(one.left_out) == {"that it changes nothing"} for one in seen)


def test_what_comes_after_a_stream_was_left_is_said_to_be_unseen(see: See) -> None:
    *_, left = see("dropped", leaves=True)
    assert left.method == f"/{SERVICE}/{_WATCH}"
    assert left.verdict != DIFFERENT
    assert BEYOND in left.left_out or left.why == "the stream was left before both had sent an item"


def test_every_plant_of_the_server_that_an_answer_can_show_is_in_the_table(modules: tuple[Any, Any, Any]) -> None:
    assert set(modules[0].FAULTS) - set(PLANTS) == {
        "late",  # a duration: the gate judges it
        "deadline",  # of calls that have one, and of those that their caller cancels: replay makes them again
        "cancellation",
    }
    assert len(PLANTS) >= 20
