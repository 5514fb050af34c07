"""Answers a call by one upstream: what the caller sends goes there as it is, and what is answered there comes back.

Bytes stay bytes; no message is read. The call upstream has the caller's arity, metadata and the time that it
has left, and waits for a server that is not there where the caller does. Of a stream one message each way is held
here, so a side that reads slowly slows the other one. Both calls end together, whichever ends first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.server.context import call_of
from lucky_transport_stubs.words.metadata import WAITS
from lucky_transport_stubs.words.status import GONE

#: By the number of a `Shape`. The server cannot tell what its caller takes for one response from a stream of one.
_ARITIES = ("unary_unary", "stream_stream", "unary_stream", "stream_stream")
#: So many methods are kept; callers may name any number of them.
_MOST_METHODS = 1024
#: What says how messages came here, by which library, and to this relay.
_OF_THIS_HOP = frozenset({"user-agent", WAITS[0]})


class Forwarding(grpc.GenericRpcHandler):
    """Answers every method as the server behind `channel` does. upstream: its name in the details of its absence."""

    def __init__(self, channel: grpc.Channel, upstream: str) -> None:
        self._upstream = upstream

        def method(path: str, arity: str) -> Callable[..., Any]:
            multicallable = getattr(channel, arity)(path)
            return multicallable if arity.endswith("stream") else multicallable.future

        self._method = lru_cache(_MOST_METHODS)(method)
        self._handler = grpc.stream_stream_rpc_method_handler(self._forward)

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler: it serves callers of every arity."""
        return self._handler

    def _forward(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        caller = call_of(context)
        upstream = self._begin(caller, requests)
        if upstream is None:
            return
        if not context.add_callback(upstream.cancel):
            upstream.cancel()
        try:
            initial = upstream.initial_metadata()
            if initial:  # empty ones go with the first message: those of a status alone would end the caller's retries
                context.send_initial_metadata(initial)
            with suppress(grpc.RpcError, grpc.FutureCancelledError):
                if caller.shape == Shape.UNARY:
                    yield upstream.result()
                else:
                    yield from upstream
            self._end(upstream, context)
        finally:
            upstream.cancel()

    def _begin(self, caller: ServerCall, requests: Iterator[bytes]) -> Any:
        """Return the call upstream, None where the caller has left before its request."""
        sends_many = bool(caller.shape & Shape.CLIENT_STREAM)
        sent: Any = CallerRequests(requests) if sends_many else next(requests, None)
        if sent is None:
            return None
        call = self._method(caller.path, _ARITIES[caller.shape])(
            sent,
            timeout=None if caller.deadline is None else caller.deadline.remaining_s,
            metadata=tuple(entry for entry in caller.metadata if entry[0] not in _OF_THIS_HOP),
            wait_for_ready=WAITS in caller.metadata,
        )
        if sends_many:
            sent.begun(call)
        return call

    def _end(self, upstream: Any, context: Any) -> None:
        code, details = upstream.code(), upstream.details() or ""
        if code is grpc.StatusCode.UNAVAILABLE and GONE.search(details):
            details = f"{details} (upstream {self._upstream})"
        context.set_trailing_metadata(upstream.trailing_metadata())
        context.set_code(code)
        context.set_details(details)


class CallerRequests:
    """A caller's requests, for gRPC's thread that sends them. Where the caller leaves, the call upstream is cancelled:
    its end must not look like the end of the requests.
    """

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._has_begun = threading.Event()
        self._call: Any = None

    def begun(self, call: Any) -> None:
        """Note the call that sends these."""
        self._call = call
        self._has_begun.set()

    def __iter__(self) -> CallerRequests:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._requests)
        except grpc.RpcError:
            self._has_begun.wait()
            self._call.cancel()
            raise StopIteration from None
