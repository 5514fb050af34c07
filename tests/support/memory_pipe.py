"""Two pipe ends in one process, without shared memory: for tests of calls.

    client_end, engine_end = memory_pipes()

They implement `lucky_transport.rpc.pipe.Pipe`, bounded like a ring: `capacity` bytes each way, the longest record a
quarter of it. `die` makes an end look as if its process had been killed.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from lucky_transport.codec.envelope import ItemRun, Pieces, Popped, decode_compact, encode_compact, joined
from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, SpecError, TransportError, Unimplemented
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.send_queue import fragment
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.support.waiting import PATIENCE_S


class _Way:
    """Records on their way from one end to the other."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.records: deque[bytes] = deque()
        self.used = 0


class MemoryPipe:
    """One end; made by `memory_pipes`."""

    def __init__(self, name: str, incoming: _Way, outgoing: _Way, changed: threading.Condition) -> None:
        self._peer_name = name
        self._in, self._out = incoming, outgoing
        self._changed = changed
        self._interrupted = False
        self._closed = False
        self.other: MemoryPipe

    @property
    def largest_record(self) -> int:
        return self._out.capacity // 4

    @property
    def peer(self) -> str:
        return self._peer_name

    def try_push(
        self, record: bytes | bytearray | memoryview | Pieces, call: int = 0, message_bytes: int = 0, /
    ) -> bool:
        if isinstance(record, list):
            record = joined(record)
        if not 0 < len(record) <= self.largest_record:
            raise SpecError(f"a record of {len(record)} bytes, expected 1 to {self.largest_record}")
        with self._changed:
            self._check()
            if self.other._closed:
                raise PeerDied(f"{self._peer_name} is gone")
            if not self._fits(len(record)):
                return False
            self._out.records.append(bytes(record))
            self._out.used += len(record)
            self._changed.notify_all()
            return True

    def ready(self) -> bool:
        return bool(self._in.records)

    def try_pop(self) -> bytes | None:
        if not self._in.records and not self._closed:
            return None
        with self._changed:
            self._check()
            if not self._in.records:
                return None
            record = self._in.records.popleft()
            self._in.used -= len(record)
            self._changed.notify_all()
            return record

    def push(self, kind: int, correlation_id: int, payload: bytes, /, *fields: Any) -> bool:
        return self.try_push(encode_compact(kind, correlation_id, payload, *fields))

    def pop_batch(self, limit: int, /) -> Popped | ItemRun | None:
        record = self.try_pop()
        return None if record is None else decode_compact(record)

    def limit(self, message_bytes: int) -> None:
        """Every message is taken out."""

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        with self._changed:
            self._changed.wait_for(self._has_something, timeout_ns / 1e9)
            self._check()
            self._interrupted = False
            if not self._in.records and self.other._closed:
                raise PeerDied(f"{self._peer_name} is gone")
            return bool(self._in.records)

    def wait_writable(self, length: int, timeout_ns: int) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._fits(length) or self._closed or self.other._closed, timeout_ns / 1e9)
            self._check()
            if self.other._closed:
                raise PeerDied(f"{self._peer_name} is gone")
            return self._fits(length)

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def fileno(self) -> int:
        return -1

    def expect(self) -> bool:
        return False

    def look(self, longest_ns: int) -> None:
        pass

    def arm(self, expects: bool = False) -> bool:
        raise LocalProtocolError("a pipe in memory has no descriptor to watch")

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    #: To the other end a killed process looks the same.
    die = close

    def _fits(self, length: int) -> bool:
        return self._out.used + length <= self._out.capacity

    def _has_something(self) -> bool:
        return bool(self._in.records) or self._interrupted or self._closed or self.other._closed

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("the pipe is closed", hint="connect again")


def memory_pipes(capacity: int = 512 << 10) -> tuple[MemoryPipe, MemoryPipe]:
    """Return (the client's end, the engine's end) of a new pair."""
    changed = threading.Condition(threading.RLock())
    up, down = _Way(capacity), _Way(capacity)
    client = MemoryPipe("engine in this process", down, up, changed)
    engine = MemoryPipe("client in this process", up, down, changed)
    client.other, engine.other = engine, client
    return client, engine


def cut(record: bytes, call: int, largest: int, message_bytes: int = 0) -> Iterator[bytes]:
    """Yield the records of `largest` bytes at most that carry an envelope; itself when it is short enough."""
    if len(record) <= largest:
        yield record
        return
    offset = 0
    while offset < len(record):
        piece, size = fragment(record, call, offset, largest, message_bytes)
        yield piece if isinstance(piece, bytes) else b"".join(piece)
        offset += size


_SLICE_NS = 20_000_000


class CallPair:
    """`client`, `server`, and their pipe ends; `open_calls` are the server's calls by number, as they began."""

    def __init__(
        self,
        handlers: Mapping[str, Callable[[ServerCall], None]],
        *,
        capacity: int = 512 << 10,
        max_message_bytes: int = 4 << 20,
        pipes: tuple[Any, Any] | None = None,
    ) -> None:
        self.client_pipe, self.server_pipe = pipes or memory_pipes(capacity)
        self.client = ClientCalls(self.client_pipe, backend="memory", max_message_bytes=max_message_bytes)
        self.server = ServerCalls(self.server_pipe, self._begin, max_message_bytes=max_message_bytes)
        self.fault: TransportError | None = None
        self.begun: list[ServerCall] = []
        self._handlers = handlers
        self._stopping = False
        self._feeding = threading.Event()
        self._feeding.set()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop reading what the client sends; after at most one slice nothing is read any more."""
        self._feeding.clear()

    def go_on(self) -> None:
        """Read again."""
        self._feeding.set()

    def close(self) -> None:
        """End both sides and all threads; raises TimeoutError when one does not end."""
        self._stopping = True
        self._feeding.set()
        self.client.close()
        self.server.close()
        for thread in (self._thread, *self._threads):
            thread.join(PATIENCE_S)
            if thread.is_alive():
                raise TimeoutError(f"{thread.name} did not end")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _feed(self) -> None:
        try:
            while not self._stopping:
                if self.server_pipe.wait(_SLICE_NS) and self._feeding.wait():
                    self.server.feed()
        except TransportError as error:
            self.fault = error
            self.server.close(error)

    def _begin(self, call: ServerCall) -> None:
        self.begun.append(call)
        handler = self._handlers.get(call.name)
        if handler is None:
            call.fail(Unimplemented(f"no {call.name}"))
            return
        thread = threading.Thread(target=_run, args=(handler, call), name=call.name, daemon=True)
        self._threads.append(thread)
        thread.start()


def _run(handler: Callable[[ServerCall], None], call: ServerCall) -> None:
    try:
        handler(call)
    except TransportError as error:
        if not call.is_ended:
            call.fail(error)
