"""Whatever an engine's code raises ends the exchange or call with EngineFailed; only the program's own signals pass."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.call import Call
from lucky_transport.engine import Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, EngineFailed, is_interruption
from lucky_transport.messages import (
    GetCameraFrameRequest,
    ImageFrame,
    LidarSensorRequest,
    StartViewportStreamRequest,
    StepRequest,
)
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.transport import Transport
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import until

INFO = method("SceneService/GetSceneInfo")
VIEW = method("ViewportService/StreamViewport")


class Stopped(BaseException):
    """An exception of an env's own, as some libraries end their threads with."""


RAISED = {
    "SystemExit: 4": SystemExit(4),
    "KeyboardInterrupt: ": KeyboardInterrupt(),
    "GeneratorExit: ": GeneratorExit(),
    "Stopped: enough": Stopped("enough"),
    "RuntimeError: broken": RuntimeError("broken"),
}


#: Every error in this process, one of them over each wire.
raised = pytest.mark.parametrize(
    ("transport", "error"),
    [
        *(pytest.param("inproc", error, id=text) for text, error in RAISED.items()),
        *(pytest.param(wire, RAISED["Stopped: enough"], id=wire) for wire in ("shm", "grpc")),
    ],
    indirect=["transport"],
)


@contextmanager
def served(engine: ToyEngine, transport: str) -> Iterator[Callable[[], Transport]]:
    """Serve the engine; yield what opens a client of it."""
    where = {"inproc": f"inproc://{unique_name()}", "shm": f"shm://{unique_name()}", "grpc": "grpc://127.0.0.1:0"}
    with api.serve(engine, where[transport]) as serving:
        yield partial(api.open_transport, serving.endpoints[0])
        until(lambda: not serving.host.driver)


# --- an engine in this process: everything it is asked ---


class Raising:
    """An engine that raises `error` in whatever it is asked, but for a quiet step. closed: its streams that ended."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.closed: list[str] = []
        self.engine = ScriptedEngine(
            2,
            on_step=self._raise,
            services={"/hazel.rpc.LidarService/GetLidarBeamCount": self._raise},
            call_handlers={"/hazel.rpc.LidarService/GetLidarBeamAngles": self._raise},
            streams={VIEW.name: self._stream},
        )

    def _raise(self, *_: Any) -> Any:
        if self.error is not None:
            raise self.error

    def _stream(self, request: StartViewportStreamRequest, call: Call) -> Iterator[ImageFrame]:
        try:
            yield ImageFrame(frame_number=1)
            self._raise()
        finally:
            self.closed.append("stream")


def asked(client: Transport) -> dict[str, Callable[[], object]]:
    """Return what a client asks an engine for, by name."""
    sensor = LidarSensorRequest()
    return {
        "step": lambda: client.step(client.actions),
        "reset": lambda: client.step(client.actions, np.ones(2, np.uint8)),
        "service": lambda: client.call(method("/hazel.rpc.LidarService/GetLidarBeamCount"), sensor),
        "call handler": lambda: client.call(method("/hazel.rpc.LidarService/GetLidarBeamAngles"), sensor),
        "stream": lambda: list(client.stream(VIEW, StartViewportStreamRequest())),
    }


def test_what_an_engine_raises_ends_what_was_asked_and_nothing_else(transport: str) -> None:
    raising = Raising()
    with served(raising.engine, transport) as connect, connect() as client:
        for text, error in RAISED.items():
            raising.error = error
            for what, ask in asked(client).items():
                with pytest.raises(EngineFailed) as failed:
                    ask()
                assert text.strip() in str(failed.value), what
        raising.error = None
        assert _steps(client)
        raising.closed.clear()
        stream = client.stream(VIEW, StartViewportStreamRequest())
        next(stream)
        stream.cancel()  # a stream that its reader leaves has not failed
        until(lambda: raising.closed == ["stream"])


@pytest.mark.parametrize("error", [SystemExit(4), Stopped("enough"), RuntimeError("broken")])
def test_what_an_engine_raises_when_it_is_closed_is_its_failure(error: BaseException) -> None:
    with pytest.raises(EngineFailed, match=rf"failed in close: {type(error).__name__}: "):
        api.serve(ScriptedEngine(on_close=Mock(side_effect=error)), "inproc:").stop()


@raised
def test_an_engine_that_raises_for_a_client_that_leaves_goes_on_for_the_others(
    transport: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with served(ScriptedEngine(2, on_leave=Mock(side_effect=error)), transport) as connect:
        with connect() as driver, connect() as stays:
            driver.step(driver.actions)
            with connect() as leaves:
                leaves.call(INFO, INFO.request())
            until(lambda: "leave of engine 'toy' failed" in caplog.text)
            for client in (driver, stays):
                assert client.call(INFO, INFO.request())
            driver.step(driver.actions)
        with connect() as later:
            until(lambda: _steps(later))


def _steps(client: Transport) -> bool:
    try:
        return client.step(client.actions).rewards.shape == (2,)
    except Busy:  # the driver before is only just leaving
        return False


class Unbound(ToyEngine):
    """Raises in each `bind` while `error` is set."""

    error: BaseException | None = None
    closed = 0

    def bind(self, buffers: Buffers) -> None:
        if self.error is not None:
            raise self.error
        super().bind(buffers)

    def close(self) -> None:
        self.closed += 1


@raised
def test_an_engine_that_raises_when_bound_refuses_its_driver_not_the_next(transport: str, error: BaseException) -> None:
    engine = Unbound(2)
    with served(engine, transport) as connect:
        with connect() as client:
            engine.error = error
            with pytest.raises(EngineFailed, match=f"failed in bind: {type(error).__name__}: "):
                client.step(client.actions)
            engine.error = None
            assert client.step(client.actions).rewards.shape == (2,)
            engine.error = error  # for the bind to memory of its own, when the client leaves
        with connect() as later:
            engine.error = None
            until(lambda: _steps(later))
    assert engine.closed == 1


@pytest.mark.parametrize("error", RAISED.values(), ids=list(RAISED))
def test_an_engine_that_cannot_be_bound_is_not_served_and_closed(error: BaseException) -> None:
    engine = Unbound(2)
    engine.error = error
    with pytest.raises(EngineFailed, match=f"failed in bind: {type(error).__name__}: "):
        api.serve(engine, "inproc:")
    assert engine.closed == 1


@pytest.mark.parametrize("offer", ["services", "streams", "call_handlers", "worlds"])
@pytest.mark.parametrize("error", RAISED.values(), ids=list(RAISED))
def test_an_engine_that_cannot_say_what_it_offers_is_not_served_and_closed(offer: str, error: BaseException) -> None:
    def fail(engine: object) -> None:
        raise error

    engine = type("Silent", (Unbound,), {offer: property(fail)})(2)
    with pytest.raises(EngineFailed, match=f"failed in what it offers: {type(error).__name__}: "):
        api.serve(engine, "inproc:")
    assert engine.closed == 1


@raised
def test_an_engine_that_raises_when_asked_for_cameras_refuses_that_step(transport: str, error: BaseException) -> None:
    class Blind(ToyEngine):
        def check_camera_requests(self, env: int, requests: Any) -> None:
            raise error

    step = method("AgentService/Step")
    with served(Blind(1), transport) as connect, connect() as client:
        with pytest.raises(EngineFailed, match=f"check_camera_requests: {type(error).__name__}: "):
            client.call(step, StepRequest(camera_requests=[GetCameraFrameRequest()]))
        assert client.call(step, StepRequest()).success


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gRPC leaves it to the collector
@raised
def test_a_stream_that_raises_when_it_is_given_up_leaves_the_engine_free(transport: str, error: BaseException) -> None:
    def view(request: StartViewportStreamRequest, call: Call) -> Iterator[ImageFrame]:
        try:
            for number in call.ticks(1000):
                yield ImageFrame(frame_number=number)
        finally:
            raise error

    with served(ScriptedEngine(2, streams={VIEW.name: view}), transport) as connect:
        for give_up in (False, True):
            with connect() as client:
                until(lambda client=client: _steps(client))
                stream = client.stream(VIEW, StartViewportStreamRequest())
                next(stream)
                if give_up:
                    stream.cancel()


@pytest.mark.parametrize("error", RAISED.values(), ids=list(RAISED))
def test_what_a_callback_at_the_end_of_a_call_raises_keeps_no_other_from_being_called(error: BaseException) -> None:
    fail, call, called = Mock(side_effect=error), Call("a client"), list[str]()
    for callback in (fail, lambda: called.append("second"), fail, lambda: called.append("fourth")):
        call.on_end(callback)
    call.end()
    call.on_end(fail)
    call.on_end(lambda: called.append("late"))
    assert called == ["second", "fourth", "late"]


# --- the program's own signals ---


def interrupt(control: Any) -> None:
    """Send a signal in the middle of a step, to the thread that steps."""
    signal.raise_signal(signal.SIGINT)
    for _ in range(10_000):  # a signal handler runs between two instructions
        pass


class Alarm(Exception):
    """Raised by a program's own signal handler."""


def by_function(number: int, frame: object) -> None:
    raise Alarm


class ByObject:
    def method(self, *_: object) -> None:
        raise Alarm

    __call__ = method


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (signal.default_int_handler, KeyboardInterrupt),
        (by_function, Alarm),
        (ByObject().method, Alarm),
        (ByObject(), Alarm),
    ],
    ids=["Ctrl-C", "function", "method", "object"],
)
def test_what_a_signal_handler_raises_in_a_step_leaves_it_as_it_is(handler: Any, kind: type[BaseException]) -> None:
    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, handler)
    try:
        with served(ScriptedEngine(2, on_step=interrupt), "inproc") as connect, connect() as client:
            for _ in range(2):  # the first one leaves it usable
                with pytest.raises(kind):
                    client.step(client.actions)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interruption_is_not_what_code_raises_itself() -> None:
    for error in RAISED.values():
        with pytest.raises(type(error)) as raised:
            raise error
        assert not is_interruption(raised.value)
