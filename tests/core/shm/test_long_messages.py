"""Messages of any length pass between two ends of a listener, whether they know arenas or one of them is of before."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.codec.envelope import Kind, decode_envelope
from lucky_transport.errors import SpecError
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.shm.arena import DEFAULT_ARENA_BYTES
from lucky_transport.shm.listener import connecting
from lucky_transport.shm.listener.handshake import ClientHello
from lucky_transport.shm.listener.listener import Listener
from tests.core.shm.conftest import meet
from tests.support.memory_pipe import CallPair
from tests.support.waiting import soon

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

MANY = 1 << 40
#: Which side is of before: it offers no arena, or does not ask for one.
BEFORE = ("neither", "engine", "client")


def echo(call: ServerCall) -> None:
    if not call.shape:
        call.finish(call.payload, trailing=call.metadata)
        return
    while (item := call.recv()) is not None:
        call.send(item)
    call.finish()


@pytest.fixture
def join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., CallPair]]:
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
def test_long_messages_come_whole_in_both_directions(join: Callable[..., CallPair], before: str) -> None:
    pair = join(before)
    assert (pair.client_pipe.largest_record == DEFAULT_ARENA_BYTES) is (before == "neither")
    for length in (0, 130_000, 131_069, 1_000_000, 5_000_000):
        payload = (b"%d." % length * (length // 4 + 1))[:length]
        assert pair.client.unary("/t/echo", payload, soon()) == payload
    metadata = (("key", "value"),)
    answer = pair.client.exchange("/t/echo", payload, soon(), metadata)
    assert (answer.payload, answer.trailing) == (payload, metadata)


@pytest.mark.parametrize("metadata", [(), (("key", "value"),)], ids=["plain", "with metadata"])
def test_a_long_message_is_allocated_by_its_receiver_alone(
    join: Callable[..., CallPair], metadata: tuple[tuple[str, str], ...]
) -> None:
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
def test_long_items_come_in_their_order(join: Callable[..., CallPair], before: str) -> None:
    call = join(before).client.open("/t/echo", shape=Shape.CLIENT_STREAM | Shape.SERVER_STREAM)
    items = [bytes([number]) * length for number, length in enumerate((10, 300_000, 5, 2_000_000, 150_000))]
    for item in items:
        call.send(item, soon())
        assert call.recv(soon()) == item
    call.half_close()
    assert call.recv(soon()) is None


@pytest.mark.parametrize("before", BEFORE)
def test_a_message_above_the_limit_is_refused_by_itself(join: Callable[..., CallPair], before: str) -> None:
    pair = join(before, max_message_bytes=1_000_000)
    assert len(pair.client.unary("/t/echo", bytes(1_000_000), soon())) == 1_000_000
    for length in (1_000_001, 30_000_000):
        with pytest.raises(SpecError, match=f"a message of {length} bytes, the limit is 1000000; send less"):
            pair.client.unary("/t/echo", bytes(length), soon())
    assert len(pair.client.unary("/t/echo", bytes(1_000_000), soon())) == 1_000_000
    assert len(pair.begun) == 2


def test_an_answer_above_the_callers_limit_ends_its_call_alone(join: Callable[..., CallPair]) -> None:
    pair = join()
    pair.client_pipe.limit(1_000_000)
    with pytest.raises(SpecError, match="a message of 1000001 bytes, the limit is 1000000"):
        pair.client.unary("/t/echo", bytes(1_000_001), soon())
    assert pair.client.unary("/t/echo", b"x", soon()) == b"x"


def test_what_no_arena_holds_travels_in_fragments_through_it(join: Callable[..., CallPair]) -> None:
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
