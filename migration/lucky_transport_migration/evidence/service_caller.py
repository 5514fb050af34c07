"""Calls of any gRPC method by the bytes of its messages, at a gRPC server or at one in shared memory."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

from lucky_transport.call import Metadata
from lucky_transport.endpoint import Endpoint
from lucky_transport.registry import load
from lucky_transport.routing import LEFT, ChannelOptions, Ending
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.lines import MASKED
from lucky_transport_migration.evidence.outcome import CallOutcome, as_seen, call_outcome

#: A word of metadata that is as long may be a secret.
_SECRET_BYTES = 8
#: A connection of its own, which looks for a server that is being started ten times a second.
_OWN: ChannelOptions = (("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100))
#: What a call ends with that was cancelled here.
CANCELLED = "CANCELLED"


class _Raised(Exception):
    """What an iterator of requests raises that is to; both transports log it under one name."""


logging.getLogger("grpc._channel").addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], _Raised))
)


class ServiceCaller:
    """A connection of its own to `endpoint`: "grpc://host:port" or "shm://name". The server need not be there yet.

    given: what each call has as metadata, in place of its own of the same keys; an answer that repeats it is masked.
    Raises ConfigError for another endpoint, MissingExtra without grpcio.
    """

    def __init__(self, endpoint: str, given: Metadata = ()) -> None:
        make = load("lucky_transport_stubs:channel", owner="calls of a service of your own", extra="grpc")
        self.transport = Endpoint.parse(endpoint).scheme
        self._make = partial(make, endpoint)
        self._channels: dict[ChannelOptions, Any] = {}
        self._ready: Any = None  # one for all looks: gRPC may not be told to connect twice just before a close
        self._channel(())
        self._ending = load("lucky_transport_stubs.staged.ending:ending", owner="calls of a service of your own")
        self._given = given

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next call makes another one."""
        self._ready = None
        while self._channels:
            self._channels.popitem()[1].close()

    def _channel(self, options: ChannelOptions) -> Any:
        if options not in self._channels:
            self._channels[options] = self._make(options=(*_OWN, *options))
        return self._channels[options]

    def is_ready(self, within_s: float) -> bool:
        """True once the server answers; waits so long at most."""
        import grpc  # the channel has brought it

        self._ready = self._ready or grpc.channel_ready_future(self._channel(()))
        try:
            self._ready.result(within_s)
        except grpc.FutureTimeoutError:
            return False
        self._ready = None
        return True

    def ask(
        self,
        method: ServiceMethod,
        requests: Sequence[bytes],
        *,
        timeout_s: float | None,
        metadata: Metadata = (),
        cancel_after: int | None = None,
        cancel_after_s: float | None = None,
        ahead: int = 0,
        turn_s: float = 0.0,
        ends: str = "",
        options: ChannelOptions = (),
    ) -> CallOutcome:
        """Make one call and return what came of it.

        requests: one, or any number where the method takes a stream. ahead: of a stream for a stream, send only so many
        more requests than items have come, 0 = all at once; a caller that waits for an item longer than `turn_s` gives
        up, which is its deadline. ends: of a stream of requests, "held": it is half-closed only when the call has ended
        or has not within `turn_s`, which is late; "raises": its iterator raises after the last. cancel_after: cancel
        the call once so many items of its responses have come; one that ends before is not cancelled. cancel_after_s:
        cancel it after so many seconds. timeout_s: None for no deadline. options: of the channel.
        """
        arity = f"{'stream' if method.requests_stream else 'unary'}_{'stream' if method.stream else 'unary'}"
        call_method = getattr(self._channel(options), arity)(method.name)
        turns = _Turns(requests, ahead or len(requests), turn_s, ends)
        given = iter(turns) if method.requests_stream else requests[0]
        begun = time.perf_counter_ns()
        keys = {key for key, _ in self._given}
        sent = (*(pair for pair in metadata if pair[0] not in keys), *self._given)
        make = call_method if method.stream else call_method.future
        call = make(given, timeout=timeout_s, metadata=sent)
        if not call.add_callback(turns.over.set):
            turns.over.set()
        with _cancelled_after(call, cancel_after_s):
            items, is_cancelled = _items(call, cancel_after, turns) if method.stream else _result(call)
        took_ns = time.perf_counter_ns() - begun
        if turns.late:
            ending = Ending("DEADLINE_EXCEEDED", turns.late, is_local=True)
        else:
            ending = LEFT if is_cancelled else as_seen(self._ending(call), took_ns, timeout_s)
        outcome = call_outcome(self.transport, items, ending, took_ns)
        outcome.first_us = max(0, turns.first_ns - begun) / 1e3
        return without_secrets(outcome, self._given)


def without_secrets(outcome: CallOutcome, given: Metadata) -> CallOutcome:
    """Return the outcome without what is secret of the given metadata; messages keep their length, so that they can be
    read.
    """
    words = (word for _, value in given for word in ([value] if isinstance(value, bytes) else value.encode().split()))
    for secret in (word for word in words if len(word) >= _SECRET_BYTES):
        outcome.items = [item.replace(secret, b"*" * len(secret)) for item in outcome.items]
        text = secret.decode(errors="replace")
        outcome.details = outcome.details.replace(text, MASKED)
        outcome.headers, outcome.trailing = (
            tuple(
                (key, value.replace(secret, MASKED.encode()))
                if isinstance(value, bytes)
                else (key, value.replace(text, MASKED))
                for key, value in pairs
            )
            for pairs in (outcome.headers, outcome.trailing)
        )
    return outcome


class _Turns:
    """Requests of which only `ahead` more are sent than items have come. late: what did not come in time. over: is set
    when the call has ended. ends: as in `ServiceCaller.ask`.

    first_ns: when the first one came, 0 before.
    """

    def __init__(self, requests: Sequence[bytes], ahead: int, within_s: float, ends: str) -> None:
        self.late, self.first_ns, self.over = "", 0, threading.Event()
        self._ends = ends
        self._requests = requests
        self._within_s = within_s
        self._turns = threading.Semaphore(ahead)

    def item_came(self) -> None:
        """Let one more request be sent."""
        self.first_ns = self.first_ns or time.perf_counter_ns()
        self._turns.release()

    def __iter__(self) -> Iterator[bytes]:
        for number, request in enumerate(self._requests):
            if not self._turns.acquire(timeout=self._within_s):
                self.late = f"no further item came within {self._within_s:g} s of request {number}"
                return
            yield request
        if self._ends == "raises":
            raise _Raised
        if self._ends and not self.over.wait(self._within_s):
            self.late = f"it did not end within {self._within_s:g} s before its half-close"


@contextmanager
def _cancelled_after(call: Any, seconds: float | None) -> Generator[None]:
    """Cancel a call that takes longer than that."""
    timer = threading.Timer(seconds or 0.0, call.cancel)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _items(call: Any, cancel_after: int | None, turns: _Turns) -> tuple[list[bytes], bool]:
    """Return what came, and whether the call was cancelled."""
    import grpc

    items: list[bytes] = []
    try:
        for item in call:
            items.append(item)
            turns.item_came()
            if len(items) == cancel_after:
                call.cancel()
                return items, True
    except grpc.RpcError:  # how it ended is asked of the call
        pass
    return items, call.cancelled()


def _result(call: Any) -> tuple[list[bytes], bool]:
    import grpc

    try:
        return [call.result()], False
    except (grpc.FutureCancelledError, grpc.RpcError):
        return [], call.cancelled()
