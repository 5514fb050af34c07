"""The dispatcher runs each method where the table says, and nothing slow delays anything else."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from lucky_transport.codec.flatbuffers import encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Busy,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
    TransportError,
    Unimplemented,
)
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.host import Host
from lucky_transport.messages.methods import method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.rpc.workers.adaptive_executor import AdaptiveExecutor
from lucky_transport.rpc.workers.guarded_reader import GuardedReader
from tests.core.host.conftest import Parrots
from tests.support.memory_pipe import memory_pipes
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, beside, soon

INLINE = method("AgentService/GetAgentSchema")
ENGINE = method("BatchService/SetSeeds")
POOL = method("LidarService/GetLidarBeamAngles")
LATEST = method("TelemetryService/StreamTelemetry")
EVERY = method("AgentService/StreamRobotController")


class Scene:
    """An engine with handlers of the test's own, behind a dispatcher that one thread feeds."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.streams: dict[str, Any] = {}

    def handle(self, which: Any, handler: Any) -> None:
        (self.handlers if which.stream is None else self.streams)[which.name] = handler

    @contextmanager
    def client(self, *, in_loop: bool = False, learns: bool = False, **options: Any) -> Iterator[ClientCalls]:
        """learns: with an executor that may run handlers on the feeding thread."""
        self.host = Host(ScriptedEngine(2, services=self.handlers, streams=self.streams))
        self.dispatcher = Dispatcher(self.host, **options)
        pipe, end = memory_pipes(1 << 20)
        reading = GuardedReader("reader", lambda: None)
        executor = AdaptiveExecutor(self.dispatcher.slots, reading) if learns else None
        calls = self.dispatcher.serve(end, steps=in_loop, executor=executor)
        stopping = threading.Event()

        def feed() -> None:
            try:
                while not stopping.is_set():
                    if end.wait(20_000_000):
                        calls.feed()
            except TransportError as error:
                calls.close(error)

        self.feeder = threading.Thread(target=feed)
        self.feeder.start()
        client = ClientCalls(pipe)
        try:
            yield client
        finally:
            client.close()
            stopping.set()
            self.feeder.join(PATIENCE_S)
            self.dispatcher.close(PATIENCE_S)
            self.host.close()


def ask(client: ClientCalls, which: Any, payload: bytes | None = None) -> Any:
    """Call the method once, or take a stream's first item."""
    request = encode(which.request()) if payload is None else payload
    if which.stream:
        return client.open(which.id, request, flow=which.stream).recv(soon())
    return client.unary(which.id, request, soon())


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("which", "in_loop", "feeds"),
    [(INLINE, True, True), (INLINE, False, True), (ENGINE, True, True), (ENGINE, False, False), (POOL, True, False)],
    ids=["inline, engine's loop", "inline, other", "engine, engine's loop", "engine, other", "pool"],
)
def test_a_method_runs_where_the_table_says(scene: Scene, which: Any, in_loop: bool, feeds: bool) -> None:
    ran: list[threading.Thread] = []
    scene.handle(which, lambda request: (ran.append(threading.current_thread()), which.response())[1])
    with scene.client(in_loop=in_loop) as client:
        assert typed.call(client, which, which.request(), soon()) == which.response()
        assert (ran[0] is scene.feeder) == feeds


def test_the_request_of_another_method_is_refused_before_it_is_sent(scene: Scene) -> None:
    with scene.client() as client, pytest.raises(TypeError, match=INLINE.request.__name__):
        typed.call(client, INLINE, POOL.request(), soon())


@pytest.mark.parametrize("learns", [False, True])
def test_a_call_of_a_pool_that_is_closed_ends_with_the_reason(scene: Scene, learns: bool) -> None:
    with scene.client(learns=learns) as client:
        scene.dispatcher.close()
        with pytest.raises(TransportError, match=r"closed|closing"):
            typed.call(client, POOL, POOL.request(), soon())
        typed.call(client, INLINE, INLINE.request(agent_name="agent_1"), soon())


def test_an_engine_method_of_another_client_waits_for_the_end_of_the_step(scene: Scene) -> None:
    order: list[str] = []
    scene.handle(ENGINE, lambda request: (order.append("command"), ENGINE.response())[1])
    with scene.client() as client:
        with scene.host.between_steps():  # as long as a step runs
            asker = threading.Thread(target=lambda: typed.call(client, ENGINE, ENGINE.request(), soon()))
            asker.start()
            assert typed.call(client, INLINE, INLINE.request(), soon()).schema is not None
            order.append("end of step")
        asker.join(PATIENCE_S)
    assert order == ["end of step", "command"]


@pytest.mark.parametrize("unknown", [4711, "/no.Such/Method"])
def test_an_unknown_method_is_unimplemented_by_its_name(scene: Scene, unknown: Any) -> None:
    with scene.client() as client, pytest.raises(Unimplemented, match=f"does not know .*{unknown}"):
        client.unary(unknown, b"", soon())


@pytest.mark.parametrize("which", [INLINE, ENGINE, POOL, LATEST], ids=["inline", "engine", "pool", "stream"])
@pytest.mark.parametrize("error", [ValueError("no such robot"), SpecError("two of three"), Busy("later")])
def test_a_handlers_error_reaches_the_caller_typed(scene: Scene, which: Any, error: Exception) -> None:
    def fail(request: Any, *call: Any) -> Any:
        raise error

    scene.handle(which, fail)
    ours = isinstance(error, TransportError)
    text = f"^{error}$" if ours else f"failed in {which.name}: ValueError: {error}"
    with scene.client() as client, pytest.raises(type(error) if ours else EngineFailed, match=text):
        ask(client, which)


@pytest.mark.parametrize("which", [INLINE, LATEST], ids=["unary", "stream"])
def test_an_answer_of_another_class_is_the_engines_failure(scene: Scene, which: Any) -> None:
    scene.handle(which, lambda request, *call: iter([42]) if call else 42)
    with scene.client() as client, pytest.raises(EngineFailed, match=f"is no {which.response.__name__}: it is int"):
        ask(client, which)


@pytest.mark.parametrize("which", [INLINE, POOL, LATEST], ids=["inline", "pool", "stream"])
def test_a_payload_that_is_no_request_is_refused_and_harms_nobody(scene: Scene, which: Any) -> None:
    with scene.client() as client:
        with pytest.raises(RemoteProtocolError, match=f"malformed {which.request.__name__}"):
            ask(client, which, b"\xff" * 30)
        assert typed.call(client, INLINE, INLINE.request(), soon()).schema is not None


def test_handlers_that_hang_hold_up_no_other_kind_of_call(scene: Scene) -> None:
    release = threading.Event()

    def endless(request: Any, call: Any) -> Iterator[Any]:
        while not call.is_over:
            yield LATEST.response()

    scene.handle(LATEST, endless)
    scene.handle(POOL, lambda request: (release.wait(PATIENCE_S), POOL.response())[1])
    try:
        with scene.client(pool=2, streams=2) as client:
            hanging = [client.open(POOL.id, encode(POOL.request()), shape=Shape.UNARY) for _ in range(5)]
            streams = [typed.stream(client, LATEST, LATEST.request(), None) for _ in range(2)]
            for stream in streams:
                next(stream)
            assert typed.call(client, INLINE, INLINE.request(), soon()).schema is not None
            with pytest.raises(PeerTimeout):
                typed.call(client, POOL, POOL.request(), Deadline(0.05))
            with pytest.raises(Busy, match="2 streams run and 0 wait already"):
                next(typed.stream(client, LATEST, LATEST.request(), None))
            release.set()
            assert all(call.recv(soon()) is not None for call in hanging)
    finally:
        release.set()


def test_a_raw_handler_may_answer_later_from_another_thread(scene: Scene) -> None:
    calls: queue.SimpleQueue[ServerCall] = queue.SimpleQueue()

    def later(call: ServerCall) -> bool:
        calls.put(call)
        return True

    with beside(lambda: calls.get(timeout=PATIENCE_S).finish(b"later")), scene.client() as client:
        scene.dispatcher.register("/t/later", later)
        assert client.unary("/t/later", b"", soon()) == b"later"


def test_a_raw_handler_that_raises_or_forgets_to_answer_fails_its_call(scene: Scene) -> None:
    with scene.client() as client:
        scene.dispatcher.register("/t/raise", lambda call: call.finish(bytes(1 // 0)))
        scene.dispatcher.register("/t/forget", lambda call: None)
        with pytest.raises(EngineFailed, match="/t/raise failed: ZeroDivisionError"):
            client.unary("/t/raise", b"", soon())
        with pytest.raises(EngineFailed, match="returned without an answer"):
            client.unary("/t/forget", b"", soon())


def test_a_typed_method_goes_by_its_id_alone_so_a_name_always_means_foreign_messages(scene: Scene) -> None:
    with scene.client() as client, pytest.raises(Unimplemented, match=f"does not know {INLINE.name}"):
        client.unary(INLINE.name, encode(INLINE.request()), soon())


def test_foreign_services_answer_by_path_learn_who_leaves_and_close_with_the_dispatcher(scene: Scene) -> None:
    parrots = Parrots()
    with scene.client(foreign=[parrots]) as client:
        assert client.unary("/zoo.Parrot/Say", b"ab", soon()) == b"abab"
        with pytest.raises(Unimplemented, match=r"/zoo\.Parrot/Sing"):
            client.unary("/zoo.Parrot/Sing", b"", soon())
        scene.dispatcher.leave("client 7")
        assert parrots.left == ["client 7"]
        assert not parrots.closed
        scene.dispatcher.close()
    assert parrots.closed


def test_foreign_services_that_raise_end_one_call_and_keep_no_other_services_from_theirs(scene: Scene) -> None:
    broken: Any = SimpleNamespace(**dict.fromkeys(("handler", "leave", "close"), Mock(side_effect=SystemExit(4))))
    parrots = Parrots()
    with scene.client(foreign=[broken, parrots]) as client:
        for _ in range(2):
            with pytest.raises(EngineFailed, match=r"failed in /zoo\.Parrot/Say: SystemExit: 4"):
                client.unary("/zoo.Parrot/Say", b"ab", soon())
        assert typed.call(client, INLINE, INLINE.request(), soon())
        scene.dispatcher.leave("client 7")
        scene.dispatcher.close()
    assert (parrots.left, parrots.closed) == (["client 7"], True)


@pytest.mark.parametrize("which", [INLINE, POOL])
def test_a_unary_method_called_as_a_stream_is_refused(scene: Scene, which: Any) -> None:
    with scene.client() as client, pytest.raises(LocalProtocolError, match="called as SERVER_STREAM, it is UNARY"):
        client.open(which.id, encode(which.request())).recv(soon())


def test_a_stream_called_as_a_unary_method_is_refused(scene: Scene) -> None:
    with scene.client() as client, pytest.raises(LocalProtocolError, match="called as UNARY, it is SERVER_STREAM"):
        client.unary(LATEST.id, encode(LATEST.request()), soon())


def test_a_stream_is_pulled_only_while_its_client_can_take_an_item(scene: Scene) -> None:
    made: list[int] = []

    def count(request: Any, call: Any) -> Iterator[Any]:
        while True:
            made.append(len(made))
            yield LATEST.response()

    scene.handle(LATEST, count)
    with scene.client() as client, typed.stream(client, LATEST, LATEST.request(), None) as stream:
        for read in range(1, 30):
            next(stream)
            time.sleep(0.001)
            assert len(made) <= read + 3


def test_a_stream_counts_what_it_dropped(scene: Scene) -> None:
    def skip(request: Any, call: Any) -> Iterator[Any]:
        for _ in range(3):
            call.dropped += 5
            yield LATEST.response()
        call.dropped += 1

    scene.handle(LATEST, skip)
    with scene.client() as client:
        stream = typed.stream(client, LATEST, LATEST.request(), None)
        assert len(list(stream)) == 3
        assert stream.dropped == 16
