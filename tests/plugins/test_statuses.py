"""The same misuse gives the same error class and the same gRPC status over every transport."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport import api, errors
from lucky_transport.engine import Buffers, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Status, StatusError, TransportError, status_of
from lucky_transport.messages.methods import method
from lucky_transport.serving import Serving
from lucky_transport_grpc import _pb
from lucky_transport_grpc.errors import code_for, refuse
from lucky_transport_grpc.runtime import grpc
from lucky_transport_migration.evidence.outcome import ending_of
from lucky_transport_openra.errors import STATUSES, refuse_bridge
from lucky_transport_stubs.words.status import status_of as stubs_status_of

INFO = method("MujocoService/GetMujocoInfo")
STEP = method("AgentService/Step")
TELEMETRY = method("TelemetryService/StreamTelemetry")
#: Everything that a handler of an engine may raise.
RAISED = [kind for kind in (TransportError, *TransportError.__subclasses__()) if kind is not StatusError]


class _Raising(ToyEngine):
    """Its handlers raise what the test says."""

    def __init__(self) -> None:
        self.raises: Callable[[], Exception] = lambda: ValueError("none")
        super().__init__(1)

    @property
    def services(self) -> Mapping[str, Handler]:
        return {**super().services, INFO.name: self._refuse}

    def _refuse(self, request: Any) -> Any:
        raise self.raises()


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


def _status(channel: Any, path: str, **fields: Any) -> str:
    """Return the status that a generated stub sees."""
    call, request = _calls(channel, path)
    with pytest.raises(grpc.RpcError) as caught:
        call(request(**fields), timeout=PATIENCE_S)
    error: Any = caught.value
    return error.code().name


async def _aio_status(channel: Any, path: str, **fields: Any) -> str:
    call, request = _calls(channel, path)
    with pytest.raises(grpc.RpcError) as caught:
        await call(request(**fields), timeout=PATIENCE_S)
    await channel.close()
    error: Any = caught.value
    return error.code().name


def _foreign(serving: Serving, path: str, **fields: Any) -> dict[str, str]:
    """Return the status that programs see which know gRPC only, by channel."""
    found: dict[str, str] = {}
    with ExitStack() as stack:
        for endpoint in serving.endpoints:
            if endpoint.scheme not in ("shm", "grpc", "openra"):
                continue  # no call of gRPC's comes that way
            if endpoint.scheme == "shm":
                channel = lucky_transport_stubs.channel(str(endpoint))
                found["shm aio"] = asyncio.run(_on_aio(str(endpoint), path, **fields))
            else:
                channel = grpc.insecure_channel(endpoint.address)
            stack.callback(channel.close)
            found[endpoint.scheme] = _status(channel, path, **fields)
    return found


async def _on_aio(target: str, path: str, **fields: Any) -> str:
    return await _aio_status(lucky_transport_stubs.aio_channel(target), path, **fields)


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_an_error_of_a_handler_has_one_class_and_one_status_everywhere(kind: type[TransportError]) -> None:
    engine = _Raising()
    engine.raises = lambda: kind("the reason")
    with _served(engine) as serving:
        assert set(_typed(serving, INFO, INFO.request()).values()) == {kind}
        assert set(_foreign(serving, INFO.name).values()) == {kind.grpc_status.name}


def test_a_foreign_exception_of_a_handler_is_an_engine_that_failed_everywhere() -> None:
    with _served(_Raising()) as serving:
        assert set(_typed(serving, INFO, INFO.request()).values()) == {errors.EngineFailed}
        assert set(_foreign(serving, INFO.name).values()) == {"INTERNAL"}


def test_a_taken_engine_is_busy_everywhere() -> None:
    with _served(ToyEngine(1)) as serving:
        host = serving.host
        lease = host.drive("the trainer", Buffers.allocate(host.spec))
        assert set(_typed(serving, STEP, STEP.request()).values()) == {errors.Busy}
        assert set(_foreign(serving, STEP.name).values()) == {"RESOURCE_EXHAUSTED"}
        lease.release()


def test_a_method_that_the_engine_lacks_is_unimplemented_everywhere() -> None:
    scan = method("LidarService/GetLidarScan")
    with _served(ToyEngine(1)) as serving:
        assert set(_typed(serving, scan, scan.request()).values()) == {errors.Unimplemented}
        assert set(_foreign(serving, scan.name).values()) == {"UNIMPLEMENTED"}


class _Aborted(Exception):
    """What a context's abort() raises."""


class _Context:
    """A server's context that raises the status a call ends with."""

    def set_trailing_metadata(self, metadata: Any) -> None:
        pass

    def abort(self, code: Any, details: str) -> None:
        raise _Aborted(code.name)


def _aborted(end: Callable[[Any, TransportError], Any], error: TransportError) -> str:
    with pytest.raises(_Aborted) as caught:
        end(_Context(), error)
    return str(caught.value)


def test_every_surface_takes_its_status_from_the_one_table() -> None:
    for kind in RAISED:
        error = kind("the reason")
        table = kind.grpc_status.name
        assert {
            "grpc": _aborted(refuse, error),
            "drop-ins": stubs_status_of(error).code.name,
            "routing": ending_of(error).code,
            "openra": _aborted(refuse_bridge, error),
        } == {
            "grpc": table,
            "drop-ins": table,
            "routing": table,
            "openra": STATUSES.get(kind, kind.grpc_status).name,
        }, kind.__name__


def test_the_bridges_own_column_is_one_unknown_session() -> None:
    assert {errors.UnknownSession: Status.UNAVAILABLE} == STATUSES
    assert errors.UnknownSession.grpc_status is Status.NOT_FOUND


@pytest.mark.parametrize(("number", "status"), [(5, Status.NOT_FOUND), (99, Status.UNKNOWN), (-1, Status.UNKNOWN)])
def test_a_status_of_a_handlers_own_stays_what_it_is(number: int, status: Status) -> None:
    error = StatusError(number, "why")
    assert status_of(error) is status
    assert stubs_status_of(error).code.name == code_for(error).name == ending_of(error).code == status.name


def test_the_statuses_have_grpcs_names_and_numbers() -> None:
    assert {status.name: int(status) for status in Status} == {code.name: code.value[0] for code in grpc.StatusCode}


def test_the_reference_names_the_status_of_every_error() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| `\w+` \| (?:`(\w+)`|the handler's) \|", page, re.MULTILINE))
    expected = {kind.__name__: kind.grpc_status.name for kind in RAISED[1:]}
    assert told == {**expected, "StatusError": ""}
