"""The same planted failures under all three adapters of the router: typed calls, grpc.Channel and grpc.aio.Channel."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.messages import LidarBeamAnglesResponse, LidarSensorRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.routing import Decision
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from tests.migration.conftest import FakePolicy
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, beside

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs  # noqa: E402 - needs grpc
from lucky_transport_stubs.staged import channels  # noqa: E402

READ = method("LidarService/GetLidarBeamAngles")
CHANGE = method("LidarService/SetLidarPreset")
STEP = "/hazel.rpc.AgentService/Step"

GRPC, SHADOW = Decision("grpc", "", "grpc"), Decision("grpc", "shm", "shadow")
CANARY = Decision("shm", "grpc", "canary 10%")

#: A caller's patience with one read: long enough for a busy machine, short enough to wait for.
READ_S = 2.0


class Planted(ScriptedEngine):
    """Answers reads with `beams`; what `hangs` names waits for `go_on`. `entered`: a change has begun."""

    def __init__(self, beams: int = 7, hangs: str = "") -> None:
        super().__init__(services={READ.name: self._read, CHANGE.name: self._change})
        self.go_on, self.entered = threading.Event(), threading.Event()
        self.changes = 0
        self._beams = beams
        self._hangs = hangs

    def _read(self, request: Any) -> LidarBeamAnglesResponse:
        if self._hangs == "read":
            self.go_on.wait(PATIENCE_S)
        return LidarBeamAnglesResponse(self._beams)

    def _change(self, request: Any) -> Any:
        self.changes += 1
        self.entered.set()
        if self._hangs == "change":
            self.go_on.wait(PATIENCE_S)
        return CHANGE.response()


class Typed:
    """A program of typed calls. control, candidate: endpoints."""

    def __init__(self, router: ProcessRouter, control: str, candidate: str) -> None:
        hasty = load_settings({"connect_timeout_s": 0.5})
        sides = (
            RoutedConnection("grpc", partial(api.open_transport, control)),
            RoutedConnection("shm", partial(api.open_transport, candidate, hasty)),
        )
        self._transport = StagedTransport(*sides, router)

    def read(self) -> Any:
        return self._transport.call(READ, LidarSensorRequest(), Deadline(READ_S)).beams

    def change(self) -> None:
        self._transport.call(CHANGE, CHANGE.request(), Deadline(PATIENCE_S))

    def close(self) -> None:
        self._transport.close()


def _beams(payload: bytes) -> int:
    """Return the first field of a protobuf response, a small varint."""
    return payload[1] if payload else 0


def _makers(target: str, candidate: str) -> dict[str, Callable[[], Any]]:
    """Return what makes a blocking channel over each transport."""
    return {"grpc": lambda: grpc.insecure_channel(target), "shm": lambda: lucky_transport_stubs.channel(candidate)}


class Sync:
    """A program of grpc.Channel."""

    def __init__(self, router: ProcessRouter, control: str, candidate: str) -> None:
        target = control.removeprefix("grpc://")
        makers = _makers(target, candidate)
        self._channel = channels.open_channel(target, {name: make() for name, make in makers.items()}, makers, None)

    def read(self) -> Any:
        return self._channel.unary_unary(READ.name, None, _beams)(b"", timeout=READ_S)

    def change(self) -> None:
        self._channel.unary_unary(CHANGE.name)(b"", timeout=PATIENCE_S)

    def close(self) -> None:
        self._channel.close()


class Aio:
    """A program of grpc.aio.Channel, its loop on a thread of its own."""

    def __init__(self, router: ProcessRouter, control: str, candidate: str) -> None:
        target = control.removeprefix("grpc://")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def start() -> Any:
            sides = {
                "grpc": grpc.aio.insecure_channel(target),
                "shm": lucky_transport_stubs.aio_channel(candidate),
            }
            return channels.open_aio_channel(target, sides, _makers(target, candidate), None)

        self._channel = self._run(start())

    def read(self) -> Any:
        return self._run(self._call(READ.name, READ_S, _beams))

    def change(self) -> None:
        self._run(self._call(CHANGE.name, PATIENCE_S, None))

    def close(self) -> None:
        self._run(self._channel.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _call(self, name: str, timeout: float, deserialize: Callable[[bytes], Any] | None) -> Any:
        return await self._channel.unary_unary(name, None, deserialize)(b"", timeout=timeout)

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(2 * PATIENCE_S)


@pytest.fixture
def stack() -> Generator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


#: Makes a program: (policy, control engine, candidate endpoint).
Start = Callable[..., Any]


@pytest.fixture(params=[Typed, Sync, Aio], ids=["typed", "sync", "asyncio"])
def start(request: pytest.FixtureRequest, stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch) -> Start:
    def start(policy: Any, control: Planted, candidate: str) -> Any:
        router = ProcessRouter(policy)
        stack.callback(router.close)
        monkeypatch.setattr(channels, "open_router", lambda: router)
        endpoint = stack.enter_context(api.serve(control, "grpc://127.0.0.1:0")).endpoints[0]
        stack.callback(control.go_on.set)
        program = request.param(router, str(endpoint), candidate)
        stack.callback(program.close)
        return program

    return start


@pytest.fixture
def serve(stack: contextlib.ExitStack) -> Callable[[Planted], str]:
    """Return a function that serves a candidate and returns its endpoint."""

    def serve(engine: Planted) -> str:
        endpoint = stack.enter_context(api.serve(engine, f"shm://{unique_name()}")).endpoints[0]
        stack.callback(engine.go_on.set)
        return str(endpoint)

    return serve


def policy_of(decision: Decision) -> Any:
    return FakePolicy(decision, {STEP: GRPC})


@pytest.mark.parametrize(
    ("fault", "code"),
    [("none", "OK"), ("wrong", "OK"), ("hang", "DEADLINE_EXCEEDED"), ("unreachable", "UNAVAILABLE")],
)
def test_whatever_a_shadow_does_the_caller_is_answered_by_grpc(start: Start, serve: Any, fault: str, code: str) -> None:
    policy = policy_of(SHADOW)
    candidate = {
        "none": lambda: serve(Planted(7)),
        "wrong": lambda: serve(Planted(8)),
        "hang": lambda: serve(Planted(7, hangs="read")),
        "unreachable": lambda: f"shm://{unique_name()}",
    }[fault]()
    program = start(policy, Planted(7), candidate)
    assert program.read() == 7
    (note,) = policy.wait_for(READ.name)
    assert (note.primary.transport, note.primary.code) == ("grpc", "OK")
    assert note.shadow is not None, note.why
    assert (note.shadow.transport, note.shadow.code) == ("shm", code)
    if code == "OK":
        assert (list(note.shadow.items) == list(note.primary.items)) == (fault == "none")


@pytest.mark.parametrize("stage", [SHADOW, CANARY], ids=lambda decision: decision.stage)
def test_a_candidate_that_crashes_in_a_read_is_noted_and_grpc_answers(
    start: Start, stage: Decision, stack: contextlib.ExitStack
) -> None:
    policy = policy_of(stage)
    process = EngineProcess("toy", [f"shm://{unique_name()}"], options={"answer_delay_s": 60.0})
    stack.callback(process.stop)
    program = start(policy, Planted(7), str(process.endpoints[0]))
    killer = threading.Timer(0.5, process.kill)
    killer.start()
    assert program.read() == 7
    killer.join()
    (note,) = policy.wait_for(READ.name)
    assert note.primary.transport == "grpc"
    assert note.shadow is not None, note.why
    assert (note.shadow.transport, note.shadow.code) == ("shm", "UNAVAILABLE")


def test_in_a_canary_an_unreachable_engine_is_answered_for_by_grpc(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    policy = policy_of(CANARY)
    program = start(policy, Planted(7), f"shm://{unique_name()}")
    assert [program.read() for _ in range(2)] == [7, 7]
    for note in policy.wait_for(READ.name, 2):
        assert note.decision == Decision("grpc", "shm", "canary 10%")
        assert (note.primary.code, note.shadow.code) == ("OK", "UNAVAILABLE")
    logged = [one.getMessage() for one in caplog.records if "gRPC answers instead" in one.getMessage()]
    assert len(logged) == 1, "once for each method"


def test_two_answers_that_a_change_overlaps_are_not_compared_though_they_are_equal(start: Start, serve: Any) -> None:
    policy = policy_of(SHADOW)
    control = Planted(7, hangs="change")
    program = start(policy, control, serve(Planted(7)))
    with beside(program.change):
        assert control.entered.wait(PATIENCE_S)
        assert program.read() == 7
        (note,) = policy.wait_for(READ.name)
        assert (note.shadow, note.why) == (None, "the world changed before both had answered")
        control.go_on.set()
    assert program.read() == 7
    assert policy.wait_for(READ.name, 2)[-1].shadow is not None, "the world stood still"


def test_what_is_no_read_is_never_made_twice_whatever_the_policy_says(start: Start, serve: Any) -> None:
    policy = policy_of(SHADOW)
    control, candidate = Planted(), Planted()
    program = start(policy, control, serve(candidate))
    program.change()
    (note,) = policy.wait_for(CHANGE.name)
    assert note.shadow is None
    assert "not made twice" in note.why
    program.read()
    policy.wait_for(READ.name)  # a shadow of the change would have come before
    assert (control.changes, candidate.changes) == (1, 0)
