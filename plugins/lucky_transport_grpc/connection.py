"""One channel to one engine: who we are, how calls are made, what their errors mean."""

from __future__ import annotations

import contextvars
import gc
import os
import secrets
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, Self

from lucky_transport.call import deadline_error
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, ClosedError, NotReachable, PeerTimeout, TransportError
from lucky_transport.futures import CallFuture, on_cancel, settle
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport.uninterrupted import start_thread
from lucky_transport_grpc import _pb
from lucky_transport_grpc.address import OF_A_TRANSPORT, target_of
from lucky_transport_grpc.errors import from_rpc, is_given_up, is_local_timeout
from lucky_transport_grpc.exchange import CallsUnderWay
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_grpc.metadata import CLIENT, Metadata
from lucky_transport_grpc.runtime import grpc

_OPTIONS = (
    (OF_A_TRANSPORT, 1),
    ("grpc.max_receive_message_length", -1),  # 4 MiB would end at 1280x1024 RGBA, or 4096 envs with 256 observations
    ("grpc.max_send_message_length", -1),
    (
        "grpc.use_local_subchannel_pool",
        1,
    ),  # else a legacy engine takes two clients of one process for one
    ("grpc.enable_retries", 0),  # a Step must never be sent twice behind our back
    ("grpc.enable_http_proxy", 0),  # http_proxy is for the internet, not for an engine
    ("grpc.initial_reconnect_backoff_ms", 100),  # meet an engine soon after it starts, not up to a second later
    ("grpc.max_reconnect_backoff_ms", 1000),
)

#: How long `close` waits for gRPC.
_CLOSE_S = 5.0


class GrpcConnection:
    """A channel to the engine at `endpoint`, and the identity under which it is used.

    Every call has a deadline except streams and the calls of an open exchange, for which only the wait has one.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self.client_id = secrets.token_hex(8)
        self.identity: Metadata = ((CLIENT, self.client_id),)
        self._pid = os.getpid()
        self._closed = False
        self._attachment: Any = None
        self._channel = self._open_channel()
        self._channel_locks = _locks_of(self._channel)
        self._beginning = WorkerPool("beginning calls", 1, waiting=sys.maxsize)  # see `CallsUnderWay`
        self._intercepted: weakref.WeakSet[_InterceptedStream] = weakref.WeakSet()

    def _open_channel(self) -> Any:
        return grpc.insecure_channel(target_of(self.endpoint), options=_OPTIONS)

    @property
    def channel(self) -> Any:
        """GRPC's channel, for what else is served at the same address; it ends with `close`."""
        return self._channel

    def method(self, path: str) -> Any:
        """Return gRPC's callable for the unary method `path` of our protos."""
        found = _pb.methods()[path]
        return self._channel.unary_unary(path, found.request.SerializeToString, found.response.FromString)

    def stream(self, path: str, request: Any, deadline: Deadline | None) -> Any:
        """Return a call of the stream `path` under way; without a deadline it goes on until either side ends it."""
        found = _pb.methods()[path]
        timeout_s = None if deadline is None else deadline.remaining_s

        def start(channel: Any) -> Any:
            method = channel.unary_stream(path, found.request.SerializeToString, found.response.FromString)
            return method(request, timeout=timeout_s, metadata=self.identity)

        return self.start_stream(start)

    def start_stream(self, start: Callable[[Any], Any]) -> Any:
        """Return the streaming call that `start` makes on a channel; it can be iterated over and cancelled.

        Raises ClosedError.
        """
        if self._closed:
            raise self.ended()
        if not _has_interceptors(self._channel):
            try:
                return start(self._channel)
            except ValueError as error:
                self.check_channel(error)
                raise
        # An interceptor may return any iterator for a stream (OpenTelemetry's returns a generator), and then nothing
        # cancels the call behind it. On a channel of its own it ends with that channel.
        channel = self._open_channel()
        stream = _InterceptedStream(start(channel), channel.close)
        self._intercepted.add(stream)
        if self._closed:
            stream.cancel()
        return stream

    def call(self, method: Any, request: Any, deadline: Deadline, metadata: Metadata = ()) -> Any:
        """Return the response to one call; raises our error for whatever goes wrong.

        When the deadline is over the call is given up; whether the engine did what it asked for is unknown.
        """
        try:
            return self._invoke(method, request, self.identity + metadata, deadline)
        except grpc.RpcError as error:
            raise self.error(error, deadline) from error

    def answer(self, calls: CallsUnderWay, deadline: Deadline) -> None:
        """Make the only one of these calls here, which takes 50 us less. One that is given up can be made again."""
        [call] = calls.calls
        try:
            calls.end(None, [self._invoke(*call, deadline)])
        except grpc.RpcError as error:
            if is_given_up(error):
                raise self.error(error, deadline) from error
            calls.end(error)

    def _invoke(self, method: Any, request: Any, metadata: Metadata, deadline: Deadline) -> Any:
        try:
            return method(request, timeout=deadline.remaining_s, metadata=metadata)
        except grpc.RpcError:
            raise
        except BaseException as error:
            # gRPC takes its channel's lock in Python: a signal handler that raised there left it to this thread
            for lock in self._channel_locks:
                while lock._is_owned():
                    lock.release()
            self.check_channel(error)
            raise

    def begin(
        self,
        method: Any,
        request: Any,
        deadline: Deadline,
        read: Callable[[Any], Any],
        fail: Callable[[Any], TransportError],
        metadata: Metadata = (),
    ) -> Future[Any]:
        """Return the future of a call, which ends at its deadline by itself; calls begin in the order of these.

        read: makes its result of gRPC's. fail: makes our error of gRPC's. Raises ClosedError.
        """
        future: Future[Any] = CallFuture()

        def begin() -> None:
            if future.cancelled():
                return
            try:
                call = method.future(request, timeout=deadline.remaining_s, metadata=self.identity + metadata)
            except Exception as error:
                settle(future, partial(self._refuse, error))
                return
            on_cancel(future, partial(run_on_kept_thread, call.cancel))
            call.add_done_callback(lambda done: settle(future, partial(self._response, done, read, fail)))

        try:
            self._beginning.run(partial(contextvars.copy_context().run, begin))
        except Busy as error:
            if self._closed:
                raise self.ended() from error
            raise
        return future

    def _refuse(self, error: Exception) -> NoReturn:
        self.check_channel(error)
        raise error

    def _response(self, call: Any, read: Callable[[Any], Any], fail: Callable[[Any], TransportError]) -> Any:
        try:
            return read(call.result())
        except grpc.FutureCancelledError as error:
            raise self.ended() from error
        except grpc.RpcError as error:
            raise fail(error) from error

    def results(self, calls: CallsUnderWay, deadline: Deadline) -> list[Any]:
        """Return the responses of calls that have ended; raises our error for whatever went wrong."""
        try:
            return calls.results()
        except (grpc.RpcError, grpc.FutureCancelledError, ValueError) as error:
            raise self.error(error, deadline) from error

    def error(self, error: Any, deadline: Deadline) -> TransportError:
        """Return our error for a failed call."""
        if self._closed:
            return self.ended()
        if is_local_timeout(error):
            return self.late(deadline)
        return from_rpc(error, str(self.endpoint))

    def stream_error(self, error: Any, what: str, deadline: Deadline | None) -> TransportError:
        """Return our error for a stream, or a call that was begun, of the method `what` that failed."""
        if self._closed:
            return self.ended()
        if deadline is not None and is_local_timeout(error):
            return self.stream_late(what, deadline)
        return from_rpc(error, str(self.endpoint))

    def stream_late(self, what: str, deadline: Deadline) -> PeerTimeout:
        """Return the error of a stream that reached its deadline."""
        return deadline_error(what, deadline.timeout_s, "grpc")

    def late(self, deadline: Deadline) -> PeerTimeout:
        """Return the error of a wait that reached its deadline."""
        return PeerTimeout(
            f"no answer from the engine at {self.endpoint} within {deadline.timeout_s:g} s",
            backend="grpc",
            hint="wait again, or raise the timeout (LUCKY_STEP_TIMEOUT_S, LUCKY_COMMAND_TIMEOUT_S)",
        )

    def check_channel(self, error: BaseException) -> None:
        """Raise ClosedError when `error` is what gRPC says of a closed channel; a signal handler's is another one."""
        if isinstance(error, ValueError) and str(error).startswith("Cannot invoke RPC"):
            raise self.ended() from error

    def ended(self) -> ClosedError:
        """Return the error of a use after `close`."""
        return ClosedError("the transport is closed", backend="grpc", hint="connect again")

    def unreachable(self, deadline: Deadline, why: str) -> NotReachable:
        """Return the error of a connect that found no engine."""
        return NotReachable(
            f"no engine at {self.endpoint} within {deadline.timeout_s:g} s: {why}",
            backend="grpc",
            hint="start one: lucky-transport serve ENGINE --endpoint grpc://127.0.0.1:50051 (or a LuckyEngine with a "
            "loaded scene), or raise connect_timeout_s (LUCKY_CONNECT_TIMEOUT_S)",
        )

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def check_process(self) -> None:
        """Raise ClosedError in a forked child, where gRPC must not be touched: it does not survive a fork."""
        if os.getpid() != self._pid:
            raise ClosedError(
                "this transport belongs to the parent process", backend="grpc", hint="connect again after fork()"
            )

    def attach(self, deadline: Deadline) -> None:
        """Tell the engine that we are there, and with which name; it releases our lease when this stream ends."""
        found = _pb.methods()["/lucky_transport.v1.BatchService/Attach"]
        stream = self._channel.unary_stream(found.path, found.request.SerializeToString, found.response.FromString)
        request: Any = found.request(client_id=self.client_id, pid=self._pid)
        self._attachment = stream(request, metadata=self.identity)
        if _has_interceptors(self._channel):
            self._attachment = _InterceptedStream(self._attachment, self._channel.close)
        watchdog = threading.Timer(deadline.remaining_s, self._attachment.cancel)
        watchdog.daemon = True
        start_thread(watchdog)
        try:
            next(self._attachment)
        except (grpc.RpcError, StopIteration) as error:
            why = str(from_rpc(error, str(self.endpoint))) if isinstance(error, grpc.RpcError) else "it is closing"
            raise self.unreachable(deadline, why) from error
        finally:
            watchdog.cancel()

    def close(self) -> None:
        """End the attachment, every call under way and the channel; idempotent, and harmless in a forked child."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        # A Ctrl-C that struck inside gRPC may have left one of its locks held: then closing would never return.
        closing = threading.Thread(target=self._close_channel, name="lucky-grpc-close", daemon=True)
        start_thread(closing)
        closing.join(_CLOSE_S)

    def _close_channel(self) -> None:
        for stream in list(self._intercepted):
            stream.cancel()
        if self._attachment is not None:
            self._attachment.cancel()
        self._channel.close()
        self._beginning.close()


def _has_interceptors(channel: Any) -> bool:
    """Return False for gRPC's own channel; whatever stands in front of it is taken for an interceptor."""
    return type(channel) is not sys.modules["grpc._channel"].Channel


def _locks_of(channel: Any) -> list[Any]:
    """Return the conditions that gRPC's core keeps for the channel; none where it has changed."""
    while hasattr(channel, "_channel"):
        channel = channel._channel
    states = gc.get_referents(channel)
    return [found for state in states for found in gc.get_referents(state) if isinstance(found, threading.Condition)]


class _InterceptedStream:
    """The responses of `call`, the only call on its channel; `end` closes that channel.

    The interceptor's code runs in a copy of the caller's context: what a generator makes current there (a span) would
    otherwise stay current for the caller between two items.
    """

    def __init__(self, call: Any, end: Callable[[], object]) -> None:
        self._call = iter(call)
        self._end = end
        self._context = contextvars.copy_context()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._context.run(next, self._call)
        except BaseException:
            self._end()
            raise

    def cancel(self) -> None:
        """End the call, from any thread; idempotent."""
        self._end()
        close = getattr(self._call, "close", None)
        if close is not None:
            with suppress(ValueError, RuntimeError):  # another thread reads it: the closed channel wakes that one
                self._context.run(close)

    def trailing_metadata(self) -> Any:
        """Return the call's trailing metadata where the interceptor lets them through, else None."""
        trailing = getattr(self._call, "trailing_metadata", None)
        return None if trailing is None else trailing()
