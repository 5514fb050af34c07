"""Many clients of one listener, with messages of any length, are served by one thread, which survives all of them."""

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.codec.envelope import Kind, decode_envelope
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, NotReachable, PeerDied, SpecError, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.shm.arena import DEFAULT_ARENA_BYTES
from lucky_transport.shm.listener import connecting
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.handshake import ClientHello
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.listener.server_loop import ServerLoop, ServerThread
from tests.core.shm.conftest import meet
from tests.support.memory_pipe import CallPair
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, soon, until

pytestmark = pytest.mark.usefixtures("no_descriptor_left")


class Desk:
    """A served server_loop. began: calls that came and were not echoed. left: clients that are gone."""

    def __init__(self, folder: Path) -> None:
        self.began: list[ServerCall] = []
        self.left: list[str] = []
        self.ended = threading.Event()
        self.opened = ExitStack()
        self.folder = folder
        listener = Listener("demo", directory=folder, ring_bytes=16 << 10)
        server_loop = ServerLoop(
            listener, lambda pipe, caller: ServerCalls(pipe, self._begin, caller=caller), self.left.append
        )
        self.thread = ServerThread(server_loop, "desk", close_message="the desk is closing", on_end=self.ended.set)

    def _begin(self, call: ServerCall) -> None:
        if call.path == "/t/echo":
            call.finish(call.payload + call.peer.encode())
        elif call.path == "/t/bug":
            raise RuntimeError("a bug")
        else:
            self.began.append(call)

    def connect(self, deadline: Deadline | None = None) -> MemfdPipe:
        """Return the pipe of a client, which is closed with the test."""
        return self.opened.enter_context(closing(connect_pipe("demo", deadline or soon(), directories=[self.folder])))

    def dial(self) -> ClientCalls:
        return self.opened.enter_context(closing(ClientCalls(self.connect(), backend="shm")))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    served = Desk(tmp_path)
    served.thread.start()
    with served.opened:
        yield served
    served.thread.close()
    assert not threads_of("desk")


def test_every_client_is_served_under_a_name_of_its_own(desk: Desk) -> None:
    clients = [desk.dial() for _ in range(3)]
    names = {client.unary("/t/echo", b"", soon()) for client in clients}
    assert len(names) == 3
    for client in clients:
        client.close()
    until(lambda: len(desk.left) == 3)
    assert {name.encode() for name in desk.left} == names


def test_a_client_that_is_gone_is_forgotten_and_its_calls_end(desk: Desk) -> None:
    pipe = desk.connect()
    ClientCalls(pipe).open("/t/wait")
    until(lambda: desk.began)
    pipe.close()  # as its end does; what a kill ends is a matter of the pipe
    until(lambda: desk.began[0].is_ended)
    with pytest.raises(PeerDied, match="is gone"):
        desk.began[0].recv()
    until(lambda: desk.left)


def test_a_client_that_writes_garbage_is_dropped_and_the_others_are_not(desk: Desk) -> None:
    good, bad = desk.dial(), desk.connect()
    bad.try_push(b"garbage!")
    until(lambda: desk.left)
    assert good.unary("/t/echo", b"x", soon()).startswith(b"x")


def test_a_client_that_reads_no_answers_holds_nobody_up(desk: Desk) -> None:
    good, lazy = desk.dial(), desk.dial()
    for _ in range(400):
        lazy.open("/t/echo", bytes(1000), may_wait=False)
    for _ in range(20):
        assert good.unary("/t/echo", b"x", soon()).startswith(b"x")


def test_with_a_grace_calls_under_way_are_let_come_to_their_end(desk: Desk) -> None:
    client = desk.dial()
    call = client.open("/t/wait")
    until(lambda: desk.began)
    desk.thread.stop(PATIENCE_S)
    assert not desk.ended.wait(0.05)
    with pytest.raises(NotReachable):
        desk.connect(Deadline(0))
    desk.began[0].send(b"item")
    desk.began[0].finish()
    assert desk.ended.wait(PATIENCE_S)
    assert (call.recv(), call.recv()) == (b"item", None)
    with pytest.raises(ClosedError, match="the desk is closing"):
        client.unary("/t/echo", b"", soon())


def test_after_the_grace_calls_are_ended_and_a_second_stop_can_only_shorten_it(desk: Desk) -> None:
    client = desk.dial()
    call = client.open("/t/wait")
    until(lambda: desk.began)
    for grace_s in (PATIENCE_S, 0.05, PATIENCE_S):
        desk.thread.stop(grace_s)
    with pytest.raises(ClosedError, match="the desk is closing"):
        call.recv(soon())
    assert desk.ended.wait(PATIENCE_S)
    assert desk.began[0].is_ended


def test_what_was_never_started_ends_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.thread.stop(PATIENCE_S)
    with pytest.raises(NotReachable):
        desk.connect(Deadline(0))


def test_a_bug_ends_the_thread_and_its_clients_know_it(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    client = desk.dial()
    with pytest.raises(TransportError, match="the desk is closing"):
        client.unary("/t/bug", b"", soon())
    assert desk.ended.wait(PATIENCE_S)
    assert "a bug" in caplog.text


def test_the_thread_keeps_the_deadlines_of_watched_calls(desk: Desk) -> None:
    client = desk.dial()
    client.open("/t/wait", deadline=Deadline(0.1))  # nobody waits for it, so nobody tells the server
    until(lambda: desk.began)
    desk.thread.deadline_timer.watch(desk.began[0])
    until(lambda: desk.began[0].is_ended)


def test_in_an_event_loop_it_looks_without_waiting(tmp_path: Path) -> None:
    echoed: list[str] = []

    def begin(call: ServerCall) -> None:
        echoed.append(call.path)
        call.finish()

    listener = Listener("demo", directory=tmp_path)
    server_loop = ServerLoop(listener, lambda pipe, caller: ServerCalls(pipe, begin, caller=caller))
    assert not server_loop.look()

    def ask() -> None:
        with closing(ClientCalls(connect_pipe("demo", soon(), directories=[tmp_path]))) as client:
            client.unary("/t/echo", b"", soon())

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        server_loop.look()
        asking.join(0.002)
    assert echoed == ["/t/echo"]
    assert server_loop.open_calls == 0
    server_loop.close(ClosedError("over"))
    server_loop.close(ClosedError("over"))


MANY = 1 << 40
#: Which side is of before: it offers no arena, or does not ask for one.
BEFORE = ("neither", "engine", "client")


Join = Callable[..., CallPair]


def echo(call: ServerCall) -> None:
    if not call.shape:
        call.finish(call.payload, trailing=call.metadata)
        return
    while (item := call.recv()) is not None:
        call.send(item)
    call.finish()


@pytest.fixture
def join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Join]:
    """Join a client and an engine by a pipe of the default size, or of another; all is closed with the test."""
    with ExitStack() as opened:

        def make(before: str = "neither", *, max_message_bytes: int = MANY, **sizes: Any) -> CallPair:
            if before == "client":
                monkeypatch.setattr(connecting, "ClientHello", lambda: ClientHello(arenas=False))
            if before == "engine":
                sizes["arena_bytes"] = 0
            listener = opened.enter_context(Listener("demo", directory=tmp_path, **sizes))
            pipes = meet(tmp_path, listener.advance)
            return opened.enter_context(CallPair({"/t/echo": echo}, max_message_bytes=max_message_bytes, pipes=pipes))

        yield make


@pytest.mark.parametrize("before", BEFORE)
def test_long_messages_come_whole_in_both_directions(join: Join, before: str) -> None:
    pair = join(before)
    assert (pair.client_pipe.largest_record == DEFAULT_ARENA_BYTES) is (before == "neither")
    for length in (0, 130_000, 131_069, 1_000_000, 5_000_000):
        payload = (b"%d." % length * (length // 4 + 1))[:length]
        assert pair.client.unary("/t/echo", payload, soon()) == payload
    metadata = (("key", "value"),)
    answer = pair.client.exchange("/t/echo", payload, soon(), metadata)
    assert (answer.payload, answer.trailing) == (payload, metadata)


@pytest.mark.parametrize("metadata", [(), (("key", "value"),)], ids=["plain", "with metadata"])
def test_a_long_message_is_allocated_by_its_receiver_alone(join: Join, metadata: tuple[tuple[str, str], ...]) -> None:
    """Once there and once back; a client and a server in one process make two."""
    client, message = join().client, bytes(8 << 20)
    client.unary("/t/echo", b"its name travels", soon())
    tracemalloc.start()
    try:
        answer = client.exchange("/t/echo", message, soon(), metadata)
        assert len(answer.payload) == len(message)
        assert tracemalloc.get_traced_memory()[1] < 2.5 * len(message)
    finally:
        tracemalloc.stop()
    assert answer.trailing == metadata


@pytest.mark.parametrize("before", BEFORE)
def test_long_items_come_in_their_order(join: Join, before: str) -> None:
    call = join(before).client.open("/t/echo", shape=Shape.CLIENT_STREAM | Shape.SERVER_STREAM)
    items = [bytes([number]) * length for number, length in enumerate((10, 300_000, 5, 2_000_000, 150_000))]
    for item in items:
        call.send(item, soon())
        assert call.recv(soon()) == item
    call.half_close()
    assert call.recv(soon()) is None


@pytest.mark.parametrize("before", BEFORE)
def test_a_message_above_the_limit_is_refused_by_itself(join: Join, before: str) -> None:
    pair = join(before, max_message_bytes=1_000_000)
    assert len(pair.client.unary("/t/echo", bytes(1_000_000), soon())) == 1_000_000
    for length in (1_000_001, 30_000_000):
        with pytest.raises(SpecError, match=f"a message of {length} bytes, the limit is 1000000; send less"):
            pair.client.unary("/t/echo", bytes(length), soon())
    assert len(pair.client.unary("/t/echo", bytes(1_000_000), soon())) == 1_000_000
    assert len(pair.begun) == 2


def test_an_answer_above_the_callers_limit_ends_its_call_alone(join: Join) -> None:
    pair = join()
    pair.client_pipe.limit(1_000_000)
    with pytest.raises(SpecError, match="a message of 1000001 bytes, the limit is 1000000"):
        pair.client.unary("/t/echo", bytes(1_000_001), soon())
    assert pair.client.unary("/t/echo", b"x", soon()) == b"x"


def test_what_no_arena_holds_travels_in_fragments_through_it(join: Join) -> None:
    pair = join(ring_bytes=4096, arena_bytes=1 << 20)
    payload = b"0123456789" * 310_000
    kinds: list[Kind] = []
    pop = pair.server_pipe.pop_batch

    def noted(limit: int) -> Any:
        record = pop(limit)
        if record is not None and not isinstance(record, tuple):
            kinds.append(decode_envelope(record).kind)
        return record

    pair.server_pipe.pop_batch = noted
    assert pair.client.unary("/t/echo", payload, soon()) == payload
    assert kinds == [Kind.FRAGMENT] * 3
