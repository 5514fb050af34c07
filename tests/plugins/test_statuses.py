"""The same misuse gives the same error class and the same gRPC status over every transport."""

import asyncio
import os
import re
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

import lucky_transport_stubs
from lucky_transport import api, errors
from lucky_transport.engine import Buffers
from lucky_transport.errors import Status, StatusError, TransportError
from lucky_transport.messages.methods import method
from lucky_transport.serving import Serving
from lucky_transport_grpc import _pb

INFO = method("MujocoService/GetMujocoInfo")
STEP = method("AgentService/Step")
TELEMETRY = method("TelemetryService/StreamTelemetry")
#: Everything that a handler of an engine may raise.
RAISED = [kind for kind in (TransportError, *TransportError.__subclasses__()) if kind is not StatusError]


def _raising(error: Callable[[], Exception]) -> ScriptedEngine:
    """Return an engine whose handler raises what this makes."""

    def refuse(request: Any) -> Any:
        raise error()

    return ScriptedEngine(services={INFO.name: refuse})


@contextmanager
def _served(engine: Any) -> Generator[Serving]:
    """Serve one engine over all transports that carry typed calls."""
    name = f"lucky_{os.getpid()}_status"
    schemes = [f"shm://{name}", f"inproc://{name}", "grpc://127.0.0.1:0", "openra://127.0.0.1:0"]
    with api.serve(engine, schemes) as serving:
        yield serving


def _typed(serving: Serving, row: Any, request: Any) -> dict[str, Any]:
    """Return the error class of a typed call, by transport."""
    found: dict[str, Any] = {}
    for endpoint in serving.endpoints:
        with api.open_transport(endpoint) as client, pytest.raises(TransportError) as caught:
            client.call(row, request)
        found[endpoint.scheme] = type(caught.value)
    return found


def _calls(channel: Any, path: str) -> Any:
    found = _pb.methods()[path]
    return channel.unary_unary(path, found.request.SerializeToString, found.response.FromString), found.request


def _status(channel: Any, path: str, **fields: Any) -> tuple[str, str]:
    """Return the status that a generated stub sees, and its details."""
    call, request = _calls(channel, path)
    with pytest.raises(grpc.RpcError) as caught:
        call(request(**fields), timeout=PATIENCE_S)
    return _ended(caught.value)


def _ended(error: Any) -> tuple[str, str]:
    return error.code().name, error.details()


async def _aio_status(target: str, path: str, **fields: Any) -> tuple[str, str]:
    async with lucky_transport_stubs.aio_channel(target) as channel:
        call, request = _calls(channel, path)
        with pytest.raises(grpc.RpcError) as caught:
            await call(request(**fields), timeout=PATIENCE_S)
        return _ended(caught.value)


def _foreign(serving: Serving, path: str, **fields: Any) -> dict[str, tuple[str, str]]:
    """Return the status that programs see which know gRPC only, and its details, by channel."""
    found: dict[str, tuple[str, str]] = {}
    with ExitStack() as stack:
        for endpoint in serving.endpoints:
            if endpoint.scheme not in ("shm", "grpc", "openra"):
                continue  # no call of gRPC's comes that way
            if endpoint.scheme == "shm":
                channel = lucky_transport_stubs.channel(str(endpoint))
                found["shm aio"] = asyncio.run(_aio_status(str(endpoint), path, **fields))
            else:
                channel = grpc.insecure_channel(endpoint.address)
            stack.callback(channel.close)
            found[endpoint.scheme] = _status(channel, path, **fields)
    return found


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_an_error_of_a_handler_has_one_class_and_one_status_everywhere(kind: type[TransportError]) -> None:
    with _served(_raising(lambda: kind("the reason"))) as serving:
        assert set(_typed(serving, INFO, INFO.request()).values()) == {kind}
        for code, details in _foreign(serving, INFO.name).values():
            assert code == kind.grpc_status.name
            assert "the reason" in details or details == "Deadline Exceeded"


def test_a_foreign_exception_of_a_handler_is_an_engine_that_failed_everywhere() -> None:
    with _served(_raising(lambda: ValueError("none"))) as serving:
        assert set(_typed(serving, INFO, INFO.request()).values()) == {errors.EngineFailed}
        assert {code for code, _ in _foreign(serving, INFO.name).values()} == {"INTERNAL"}


def test_a_taken_engine_is_busy_everywhere() -> None:
    with _served(ScriptedEngine(1)) as serving:
        host = serving.host
        lease = host.drive("the trainer", Buffers.allocate(host.spec))
        assert set(_typed(serving, STEP, STEP.request()).values()) == {errors.Busy}
        assert {code for code, _ in _foreign(serving, STEP.name).values()} == {"RESOURCE_EXHAUSTED"}
        lease.release()


def test_a_method_that_the_engine_lacks_is_unimplemented_everywhere() -> None:
    scan = method("LidarService/GetLidarScan")
    with _served(ScriptedEngine(1)) as serving:
        assert set(_typed(serving, scan, scan.request()).values()) == {errors.Unimplemented}
        assert {code for code, _ in _foreign(serving, scan.name).values()} == {"UNIMPLEMENTED"}


@pytest.mark.parametrize(("number", "status"), [(5, Status.NOT_FOUND), (99, Status.UNKNOWN), (-1, Status.UNKNOWN)])
def test_a_status_of_a_handlers_own_stays_what_it_is(number: int, status: Status) -> None:
    with _served(_raising(lambda: StatusError(number, "why"))) as serving:
        assert set(_foreign(serving, INFO.name).values()) == {(status.name, "why")}


def test_the_statuses_have_grpcs_names_and_numbers() -> None:
    assert {status.name: int(status) for status in Status} == {code.name: code.value[0] for code in grpc.StatusCode}


def test_the_reference_names_the_status_of_every_error() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| `\w+` \| (?:`(\w+)`|the handler's) \|", page, re.MULTILINE))
    expected = {kind.__name__: kind.grpc_status.name for kind in RAISED[1:]}
    assert told == {**expected, "StatusError": ""}
