"""Answers calls that come through pipes: each method where the table says, streams with their own threads.

    dispatcher = Dispatcher(host)
    calls = ServerCalls(pipe, dispatcher.begin_in_loop)     # fed by the thread that steps the engine
    calls = ServerCalls(pipe, dispatcher.begin)             # fed by any other thread

Rule 1: nothing here blocks the thread that feeds, unless it is the engine's own: there `engine` methods run at once,
        which is between two steps.
Rule 2: a stream is pulled only while its client can take an item; how slow a handler or a client is, is its own affair.
Rule 3: an error reaches the caller as the class and text that the handler raised; foreign ones as EngineFailed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from lucky_transport.call import Call
from lucky_transport.codec.flatbuffers import DECODERS, decode
from lucky_transport.deadline import Deadline
from lucky_transport.engine import Handler
from lucky_transport.errors import EngineFailed, LocalProtocolError, TransportError, Unimplemented, to_wire_error
from lucky_transport.host.encoding import encode_answer, encode_response, response_encoder
from lucky_transport.host.foreign import ForeignServices, RawHandler
from lucky_transport.host.host import Host
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import BY_ID, METHODS, Method, Runs
from lucky_transport.rpc.adaptive_executor import AdaptiveExecutor
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.run_time_stats import CountedPool
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.rpc.worker_pool import WorkerPool

__all__ = ["Dispatcher", "RawHandler"]

_PLAIN = [row for row in METHODS if row.stream is None and not holds_images(row.response)]
#: Methods that may be answered by whoever reads the request, by id; and by the thread that steps the engine.
_INLINE = {row.id: row for row in _PLAIN if row.runs is Runs.INLINE}
_IN_LOOP = {row.id: row for row in _PLAIN if row.runs is not Runs.POOL}
_POOL = 16
_POOL_WAITING = 1024
_STREAMS = 64


class Dispatcher:
    """Answers the calls of any number of clients of one host; `close` ends its threads.

    foreign: services in other messages; they are closed with it. slots: the threads for unary handlers.
    """

    def __init__(
        self, host: Host, *, pool: int = _POOL, streams: int = _STREAMS, foreign: Sequence[ForeignServices] = ()
    ) -> None:
        self._host = host
        self._pool = WorkerPool("command handlers", pool, _POOL_WAITING)
        self.slots = CountedPool(self._pool.run, pool)
        self._streams = WorkerPool("streams", streams)
        #: What answers a plain request of an inline method, by its id: bytes in, bytes out, or a TransportError.
        self.inline: dict[int, Callable[[bytes], bytes]] = {
            row.id: self._answerer(row, handler)
            for row in _INLINE.values()
            if (handler := host.inline_handler(row)) is not None
        }
        self._raw: dict[str, RawHandler] = {}
        self._foreign = foreign

    def register(self, path: str, handler: RawHandler) -> None:
        """Have calls of the method with that full name ("/package.Service/Method") answered by `handler`."""
        self._raw[path] = handler

    def begin(self, call: ServerCall, executor: AdaptiveExecutor | None = None) -> None:
        """Start to answer the call; never blocks: handlers run in `executor`, by default in the pool."""
        self._begin(call, executor=executor)

    def begin_in_loop(self, call: ServerCall) -> None:
        """As `begin`, on the thread that steps the engine: what needs the engine is answered at once."""
        self._begin(call, in_loop=True)

    def at_once(self, method_id: int, deadline_ns: int, caller: str, payload: bytes) -> bytes | None:
        """Return the response to a plain request of an inline method, None for any other method.

        Raises the TransportError that the caller gets.
        """
        return self._answer_now(_INLINE.get(method_id), deadline_ns, caller, payload)

    def at_once_in_loop(self, method_id: int, deadline_ns: int, caller: str, payload: bytes) -> bytes | None:
        """As `at_once`, on the thread that steps the engine: `engine` methods too."""
        return self._answer_now(_IN_LOOP.get(method_id), deadline_ns, caller, payload)

    def _answerer(self, method: Method, handler: Handler) -> Callable[[bytes], bytes]:
        """The shortest way: a call that comes seldom finds every line of code it runs gone from the caches."""
        read, write = DECODERS[method.request], response_encoder(method)

        def answer(payload: bytes) -> bytes:
            request = read(payload)
            try:
                response = handler(request)
            except Exception as error:  # a handler is foreign code and may raise anything
                known = to_wire_error(self._host.spec.engine, method.name, error)
                if known is error:
                    raise
                raise known from error
            return write(response)

        return answer

    def _answer_now(self, method: Method | None, deadline_ns: int, caller: str, payload: bytes) -> bytes | None:
        if method is None:
            return None
        call = Call(caller, Deadline(deadline_ns * 1e-9) if deadline_ns else None)
        try:
            return encode_response(method, self._host.call(method, decode(method.request, payload), call))
        finally:
            call.end()

    def leave(self, caller: str) -> None:
        """Let go of whatever the client of that name held: it has gone."""
        for services in self._foreign:
            services.leave(caller)
        self._host.leave(caller)

    def close(self, grace_s: float = 1.0) -> None:
        """Start nothing any more and wait a moment for what runs; idempotent."""
        for services in self._foreign:
            services.close()
        self._pool.close(grace_s)
        self._streams.close(grace_s)

    def _begin(self, call: ServerCall, *, in_loop: bool = False, executor: AdaptiveExecutor | None = None) -> None:
        try:
            raw = self._raw_handler(call.path) if call.path else None
            if raw is not None:
                self._run(call, partial(self._answer_raw, raw, call), executor)
                return
            method = None if call.path else BY_ID.get(call.method)
            if method is None:
                raise Unimplemented(
                    f"the engine does not know {call.name}", hint="is the engine older than this client?"
                )
            if method.stream is not None:
                self._check_shape(method, call)
                self._run(call, partial(self._answer_stream, method, call), executor)
            elif method.runs is Runs.INLINE or (in_loop and method.runs is Runs.ENGINE):
                self._answer(method, call)
            else:
                self._check_shape(method, call)
                self._run(call, partial(self._answer, method, call), executor)
        except TransportError as error:
            call.fail(error)

    def _run(self, call: ServerCall, task: Callable[[], None], executor: AdaptiveExecutor | None) -> None:
        """Have a handler run on a thread of its kind. Raises Busy."""
        if call.shape:
            self._streams.run(task)
        elif executor is None:
            self._pool.run(task)
        else:
            executor.run(call.name, task, lambda error: self._refuse(call, error))

    @staticmethod
    def _refuse(call: ServerCall, error: Exception) -> None:
        call.fail(error if isinstance(error, TransportError) else EngineFailed(str(error)))

    def _raw_handler(self, path: str) -> RawHandler | None:
        """Return what answers a method that is called by name: typed ones are called by their ids."""
        raw = self._raw.get(path)
        for services in self._foreign:
            if raw is None:
                raw = services.handler(path)
        return raw

    @staticmethod
    def _check_shape(method: Method, call: ServerCall) -> None:
        expected = Shape.UNARY if method.stream is None else Shape.SERVER_STREAM
        if call.shape != expected:
            raise LocalProtocolError(
                f"{method.name} was called as {Shape(call.shape).name}, it is {expected.name}",
                hint="use stream()" if method.stream else "use call()",
            )

    def _answer(self, method: Method, call: ServerCall) -> None:
        """Answer a unary method, here and now."""
        try:
            if call.shape:
                self._check_shape(method, call)
            response = self._host.call(method, decode(method.request, call.payload), call.call)
            payload, images = encode_answer(method, call, response)
        except TransportError as error:
            call.fail(error)
        else:
            call.finish(payload, images=images)

    def _answer_stream(self, method: Method, call: ServerCall) -> None:
        """Pull the handler's items one by one, each when the client can take it."""
        seen = call.call
        try:
            items = self._host.stream(method, decode(method.request, call.payload), seen)
            with closing(items):
                self._pull(method, call, items)
        except TransportError as error:
            call.fail(error, dropped=seen.dropped)
        else:
            call.finish(dropped=seen.dropped)

    @staticmethod
    def _pull(method: Method, call: ServerCall, items: Iterator[Any]) -> None:
        """Ask for each item when the client can take it."""
        seen, encode = call.call, response_encoder(method)
        images = holds_images(method.response)
        while True:
            call.wait_for_credit()
            item = next(items, _LAST)
            if item is _LAST:
                return
            if images:
                payload, places = encode_answer(method, call, item)
                call.send(payload, seen.dropped, places)
            else:
                call.send(encode(item), seen.dropped)

    def _answer_raw(self, handler: RawHandler, call: ServerCall) -> None:
        try:
            handler(call)
            if not call.is_over:
                raise EngineFailed(f"the handler of {call.name} returned without an answer")
        except TransportError as error:
            self._fail_if_open(call, error)
        except Exception as error:  # a handler is foreign code and may raise anything
            self._fail_if_open(call, EngineFailed(f"{call.name} failed: {type(error).__name__}: {error}"))

    @staticmethod
    def _fail_if_open(call: ServerCall, error: TransportError) -> None:
        """Report the error, unless the handler had answered before it raised."""
        if not call.is_ended:
            call.fail(error)


_LAST: Any = object()
