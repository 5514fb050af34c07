"""Interceptors: what they see and may change, in what order, on both sides; without any, nothing is in the way."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    SpecError,
    Unimplemented,
    UnknownName,
)
from lucky_transport.interceptors import CallDetails, Interceptor, Side
from lucky_transport.messages import TelemetryFrame
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.suite import zeros
from lucky_transport.transport import Capabilities, Transport
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, until, until_in_loop

GET_SCHEMA = method("AgentService/GetAgentSchema")
TELEMETRY = method("TelemetryService/StreamTelemetry")


class Notes(Interceptor):
    """Writes down what passes, as "name side what"."""

    def __init__(self, name: str = "", notes: list[str] | None = None) -> None:
        self.name = name
        self.notes: list[str] = [] if notes is None else notes

    def note(self, what: str) -> None:
        self.notes.append(f"{self.name} {what}".strip())

    def intercept_call(self, continuation: Any, details: CallDetails, request: Any) -> Any:
        self.details = details
        self.note(f"{details.point.side} {details.method.short_name}")
        outcome = continuation(details, request)
        outcome.add_done_callback(lambda done: self.note(_told(done)))
        return outcome

    def intercept_stream(self, continuation: Any, details: CallDetails, request: Any) -> Any:
        self.note(f"{details.point.side} {details.method.short_name}")
        stream = continuation(details, request)
        stream.add_end_callback(lambda end: self.note(f"{end.items} items, {_name_of(end.error, 'end')}"))
        return stream

    def intercept_step(self, continuation: Any, details: Any, actions: Any, control: Any) -> Any:
        self.note(f"{details.point.side} step")
        outcome = continuation(details, actions, control)
        outcome.add_done_callback(lambda done: self.note(_told(done)))
        return outcome


class PassesCalls(Interceptor):
    """Stands around calls, and changes nothing."""

    def intercept_call(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details, request)


class Scripted(PassesCalls):
    """Does with calls and steps what a test says; without that it passes everything."""

    def __init__(self, on_call: Any = None, on_step: Any = None) -> None:
        self.on_call, self.on_step = on_call, on_step

    def intercept_call(self, continuation: Any, details: Any, request: Any) -> Any:
        return (self.on_call or super().intercept_call)(continuation, details, request)

    def intercept_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details, request)

    def intercept_step(self, continuation: Any, details: Any, actions: Any, control: Any) -> Any:
        given = (details, actions, control)
        return self.on_step(continuation, *given) if self.on_step else continuation(*given)


def _told(outcome: Future[Any]) -> str:
    return "cancelled" if outcome.cancelled() else _name_of(outcome.exception(), "done")


def _name_of(error: BaseException | None, none: str) -> str:
    return none if error is None else type(error).__name__


def counting() -> ScriptedEngine:
    """Return an engine whose telemetry is three frames."""
    frames = [TelemetryFrame(frame_number=number) for number in range(3)]
    return ScriptedEngine(2, obs_size=3, streams={TELEMETRY.name: lambda request, call: iter(frames)})


@pytest.fixture(params=["inproc", "shm"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with api.serve(counting(), f"{request.param}://{unique_name()}") as serving:
        yield str(serving.endpoints[0])


def opened(endpoint: str, *interceptors: Interceptor) -> Transport:
    return api.open_transport(endpoint, load_settings({"interceptors": list(interceptors)}))


# --- nothing where there are none ---


def test_without_interceptors_a_program_has_the_transport_itself(endpoint: str) -> None:
    with opened(endpoint) as transport:
        assert type(transport).__module__ in ("lucky_transport.inproc", "lucky_transport_shm.client")


def test_what_no_interceptor_stands_around_is_the_transports_own_method(endpoint: str) -> None:
    with opened(endpoint, PassesCalls()) as transport:
        inner = vars(transport)["_inner"]
        for name in ("step", "send", "recv", "stream"):
            assert getattr(transport, name) == getattr(inner, name)
        assert transport.call != inner.call


# --- the client's side ---


def test_calls_steps_and_streams_pass_through_the_interceptor(endpoint: str) -> None:
    notes = Notes()
    with opened(endpoint, notes) as transport:
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
        transport.begin(GET_SCHEMA, GET_SCHEMA.request("agent_0")).result(PATIENCE_S)
        transport.step(zeros(transport), np.ones(2, np.uint8))
        transport.send(zeros(transport))
        transport.recv()
        assert [item.frame_number for item in transport.stream(TELEMETRY, TELEMETRY.request())] == [0, 1, 2]
    call, step = ["client GetAgentSchema", "done"], ["client step", "done"]
    assert notes.notes == [*call, *call, *step, *step, "client StreamTelemetry", "3 items, end"]


def test_the_first_interceptor_is_the_outermost(endpoint: str) -> None:
    notes: list[str] = []
    with opened(endpoint, Notes("outer", notes), Notes("inner", notes)) as transport:
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
    assert notes == ["outer client GetAgentSchema", "inner client GetAgentSchema", "inner done", "outer done"]


def test_an_error_passes_and_is_the_callers(endpoint: str) -> None:
    notes = Notes()
    with opened(endpoint, notes) as transport:
        missing = method("DebugService/Draw")
        with pytest.raises(Unimplemented):
            transport.call(missing, missing.request())
        with pytest.raises(SpecError, match="shape"):
            transport.step(np.zeros((1, 1), np.float32))
        with pytest.raises(SpecError, match="shape"):
            transport.send(np.zeros((1, 1), np.float32))
        with pytest.raises(LocalProtocolError):
            transport.recv()
        transport.step(zeros(transport), np.ones(2, np.uint8))
    assert notes.notes == [
        f"client {missing.short_name}",
        "Unimplemented",
        *["client step", "SpecError"] * 2,
        *["client step", "done"],
    ]


def test_what_an_interceptor_raises_the_caller_gets_and_the_connection_goes_on(endpoint: str) -> None:
    refusals = [PermissionError("not today")] * 3

    def refuse(continuation: Any, *given: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return continuation(*given)

    with opened(endpoint, Scripted(refuse, refuse)) as transport:
        for refused in (
            lambda: transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0")),
            lambda: transport.step(zeros(transport)),
            lambda: transport.send(zeros(transport)),
        ):
            with pytest.raises(PermissionError):
                refused()
        assert transport.step(zeros(transport), np.ones(2, np.uint8)).seq == 1
        assert transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0")).schema.agent_name == "agent_0"


def test_an_interceptor_may_change_actions_and_requests_and_answer_itself(endpoint: str) -> None:
    answer: Future[Any] = Future()

    def change(continuation: Any, details: Any, request: Any) -> Any:
        if answer.done():
            return answer
        return continuation(replace(details, deadline=Deadline(5)), replace(request, agent_name="agent_1"))

    def act(continuation: Any, details: Any, actions: Any, control: Any) -> Any:
        return continuation(details, np.ones_like(actions), control)

    with (
        opened(endpoint, Scripted(change, act)) as transport,
        api.serve(counting(), "inproc://plain"),
        opened("inproc://plain") as plain,
    ):
        for one in (transport, plain):
            one.step(zeros(one), np.ones(2, np.uint8))
        changed = transport.step(zeros(transport)).observations.copy()
        assert np.array_equal(changed, plain.step(zeros(plain) + 1).observations)
        assert transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0")).schema.agent_name == "agent_1"
        answer.set_result("from a cache")
        assert transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0")) == "from a cache"


def test_a_future_that_an_interceptor_never_finishes_is_waited_for_until_the_deadline(endpoint: str) -> None:
    forgets = Scripted(lambda *_: Future())
    with opened(endpoint, forgets) as transport, pytest.raises(PeerTimeout, match="did not end within 0"):
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"), Deadline(0.01))


def test_a_stream_that_is_left_ends_once_and_a_step_whose_frame_never_comes_with_the_transport(endpoint: str) -> None:
    notes = Notes()
    transport = opened(endpoint, notes)
    with transport.stream(TELEMETRY, TELEMETRY.request()) as items:
        next(items)
    items.cancel()
    transport.send(zeros(transport))
    transport.close()
    assert notes.notes == ["client StreamTelemetry", "1 items, Cancelled", "client step", "ClosedError"]


async def test_asyncio_calls_and_streams_pass_through_too(endpoint: str) -> None:
    notes = Notes()

    async with lucky_transport.connect_async(endpoint, interceptors=[notes]) as client:
        assert (await client.agent.get_agent_schema("agent_0")).schema is not None
        items = [item.frame_number async for item in client.telemetry.stream()]
        assert items == [0, 1, 2]
        with pytest.raises(Unimplemented):
            await client.debug.draw()
    assert notes.notes == [
        *["client GetAgentSchema", "done"],
        *["client StreamTelemetry", "3 items, end"],
        *["client Draw", "Unimplemented"],
    ]


def test_a_call_whose_task_is_cancelled_is_told_as_cancelled() -> None:
    notes = Notes()

    slow = {GET_SCHEMA.name: lambda request, call: call.wait(PATIENCE_S) and None}

    async def use(endpoint: str) -> None:
        async with lucky_transport.connect_async(endpoint, interceptors=[notes]) as client:
            task = asyncio.create_task(client.agent.get_agent_schema("agent_0"))
            await until_in_loop(lambda: notes.notes)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until_in_loop(lambda: len(notes.notes) == 2)

    with api.serve(ScriptedEngine(call_handlers=slow), f"shm://{unique_name()}") as serving:
        asyncio.run(use(str(serving.endpoints[0])))
    assert notes.notes == ["client GetAgentSchema", "cancelled"]


# --- the engine's side ---


@pytest.mark.parametrize("scheme", ["inproc", "shm"])
def test_the_engines_handlers_streams_and_steps_have_interceptors_of_their_own(scheme: str) -> None:
    notes = Notes()
    with (
        api.serve(counting(), f"{scheme}://{unique_name()}", interceptors=[notes]) as serving,
        api.open_transport(serving.endpoints[0]) as transport,
    ):
        transport.step(zeros(transport), np.ones(2, np.uint8))
        transport.step(zeros(transport))
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
        assert len(list(transport.stream(TELEMETRY, TELEMETRY.request()))) == 3
        until(lambda: len(notes.notes) == 8)
    assert notes.notes == [
        *["engine step", "done"] * 2,
        *["engine GetAgentSchema", "done"],
        *["engine StreamTelemetry", "3 items, end"],
    ]
    assert notes.details.point.side is Side.ENGINE
    assert "client" in notes.details.caller


@pytest.mark.parametrize("scheme", ["shm", "inproc"])
def test_envs_step_on_their_own_where_no_interceptor_sees_steps(scheme: str) -> None:
    engine = ToyEngine(2, parallel_envs=2)
    with api.serve(engine, f"{scheme}://{unique_name()}") as serving:
        endpoint = serving.endpoints[0]
        with api.open_transport(endpoint, load_settings({"interceptors": (PassesCalls(),)})) as transport:
            transport.send_envs(zeros(transport))
            assert transport.recv_envs(2, Deadline(PATIENCE_S))[0].tolist() == [0, 1]
            assert (transport.capabilities.async_envs, transport.envs_under_way) == (True, 0)
    both: tuple[dict[str, Any], ...] = ({"interceptors": (Scripted(),)}, {})
    for settings in both:
        with (
            api.serve(ToyEngine(2, parallel_envs=2), f"{scheme}://{unique_name()}", **settings) as serving,
            api.open_transport(serving.endpoints[0], load_settings({"interceptors": (Scripted(),)})) as transport,
        ):
            assert not transport.capabilities.async_envs
            with pytest.raises(Unimplemented, match=r"use step\(\)"):
                transport.send_envs(zeros(transport))


def test_what_an_interceptor_on_the_engines_side_raises_is_an_error_of_the_engine() -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("not today")

    def change(continuation: Any, details: Any, actions: Any, control: Any) -> Any:
        return continuation(details, actions + 1, control)

    with (
        api.serve("toy", f"shm://{unique_name()}", interceptors=[Scripted(refuse, change)]) as serving,
        api.open_transport(serving.endpoints[0]) as transport,
    ):
        with pytest.raises(EngineFailed, match="not today"):
            transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
        with pytest.raises(LocalProtocolError, match="other actions than it was given"):
            transport.step(zeros(transport))


@pytest.mark.parametrize("slots", [1, 3])
def test_both_sides_see_the_frame_of_the_step(slots: int) -> None:
    engine, client = list[Any](), list[Any]()

    def seen_by(frames: list[Any]) -> Interceptor:
        def see(continuation: Any, *given: Any) -> Any:
            outcome = continuation(*given)
            outcome.add_done_callback(lambda done: frames.append(done.result().observations.copy()))
            return outcome

        return Scripted(on_step=see)

    with (
        api.serve(
            counting(), f"shm://{unique_name()}", observation_slots=slots, interceptors=[seen_by(engine)]
        ) as serving,
        opened(str(serving.endpoints[0]), seen_by(client)) as transport,
    ):
        assert transport.observation_slots == slots
        for number in range(5):
            transport.step(zeros(transport) + number)
    assert len(engine) == len(client) == 5
    assert np.array_equal(engine, client)
    assert not np.array_equal(engine[0], engine[1])


# --- the setting ---


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("opentelemetri", UnknownName, "no interceptor 'opentelemetri'; did you mean 'opentelemetry'"),
        ("opentelemetry:logs", UnknownName, "variants of 'opentelemetry': opentelemetry:metrics"),
        (3, ConfigError, "expected names"),
        ([3], ConfigError, "got 3; pass names, or objects"),
    ],
)
def test_what_is_no_interceptor_is_refused(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lucky_transport.connect("shm://nowhere", interceptors=given)


# --- the contract of transports ---


@pytest.mark.exhaustive
class TestIntercepted(TransportContract):
    """A transport with interceptors on both sides keeps the contract of transports."""

    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True)
    endpoint = "shm://{name}"
    settings = {"interceptors": (Scripted(), Scripted())}  # noqa: RUF012 - read only
