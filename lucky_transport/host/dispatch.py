"""Answers the calls that come through pipes, each where its method's row in the table says.

    dispatcher = Dispatcher(host)
    calls = dispatcher.serve(pipe)                  # fed by any thread
    calls = dispatcher.serve(pipe, steps=True)      # fed by the thread that steps the engine

A short request of a method that runs on the feeding thread is answered by one function, bytes in and bytes out. Every
other call is begun as a `ServerCall` and answered on that thread, in the pool, or, if it is a stream, on a thread of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from lucky_transport.call import Call
from lucky_transport.codec.flatbuffers import DECODERS, decode
from lucky_transport.deadline import Deadline
from lucky_transport.engine import Handler
from lucky_transport.errors import (
    EngineFailed,
    LocalProtocolError,
    TransportError,
    is_interruption,
    raise_wire_error,
    to_wire_error,
)
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.host.encoding import encode_answer, response_encoder
from lucky_transport.host.foreign import ForeignServices, RawHandler, unknown_method
from lucky_transport.host.host import Host, PlainHandler
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import BY_ID, METHODS, Method, Runs
from lucky_transport.rpc.fragments import DEFAULT_LIMIT
from lucky_transport.rpc.images import ImageStore
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.rpc.server import Respond, ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.rpc.workers.adaptive_executor import AdaptiveExecutor, CountedPool
from lucky_transport.rpc.workers.worker_pool import WorkerPool

__all__ = ["Dispatcher", "RawHandler"]

_POOL = 16
_POOL_WAITING = 1024
_STREAMS = 64
#: What the feeding thread runs itself, unless it steps the engine; and if it does: between two steps it has the engine.
_READS = frozenset({Runs.INLINE})
_STEPS = frozenset({Runs.INLINE, Runs.ENGINE})


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
        self._inline = {runs: self._responders(runs) for runs in (_READS, _STEPS)}
        self._raw: dict[str, RawHandler] = {}
        self._foreign = foreign

    def register(self, path: str, handler: RawHandler) -> None:
        """Have calls of the method with that full name ("/package.Service/Method") answered by `handler`."""
        self._raw[path] = handler

    def serve(
        self,
        pipe: Pipe,
        *,
        steps: bool = False,
        executor: AdaptiveExecutor | None = None,
        caller: str = "",
        open_images: Callable[[], ImageStore] | None = None,
        max_message_bytes: int = DEFAULT_LIMIT,
    ) -> ServerCalls:
        """Return the calls of the client at the other end; nothing here blocks the thread that feeds them.

        steps: that thread steps the engine, and so runs `engine` methods at once. executor: runs the handlers of `pool`
        methods; None for the pool. open_images: opens what takes the images that do not travel through the pipe.
        caller, max_message_bytes: see `ServerCalls`.
        """
        runs = _STEPS if steps else _READS
        return ServerCalls(
            pipe,
            partial(self._begin, runs, executor),
            inline=self._inline[runs],
            caller=caller,
            max_message_bytes=max_message_bytes,
            between_steps=self._host.between_steps,
            images=None if open_images is None else open_images(),
        )

    def leave(self, caller: str) -> None:
        """Release what the client of that name held: it has gone."""
        for services in self._foreign:
            run_unwaited("leave of foreign services", services.leave, caller)
        self._host.leave(caller)

    def close(self, grace_s: float = 1.0) -> None:
        """Start nothing any more and wait a moment for what runs; idempotent."""
        for services in self._foreign:
            run_unwaited("close of foreign services", services.close)
        self._pool.close(grace_s)
        self._streams.close(grace_s)

    # -- on the feeding thread ----------------------------------------------------------------------------------------

    def _responders(self, runs: frozenset[Runs]) -> Mapping[int, Respond]:
        """Return what answers the short requests of these methods, by id.

        A method's codecs are compiled at its first request, so that an engine starts faster.
        """
        found: dict[int, Respond] = {}

        def at_first(method: Method) -> Respond:
            def respond(payload: bytes, caller: str, deadline_ns: int) -> bytes:
                found[method.id] = made = self._responder(method)
                return made(payload, caller, deadline_ns)

            return respond

        rows = (row for row in METHODS if row.stream is None and not holds_images(row.response))
        found |= {row.id: at_first(row) for row in rows if self._host.runs(row) in runs}
        return found

    def _responder(self, method: Method) -> Respond:
        """Return what answers a short request: bytes in, bytes out, or a TransportError."""
        read, write = DECODERS[method.request], response_encoder(method)
        handler = self._host.handlers.get(method.name)
        if method.runs is Runs.INLINE and isinstance(handler, PlainHandler):
            return self._plain_responder(method, handler.handle)
        answer, between_steps = self._host.call, self._host.between_steps

        def respond(payload: bytes, caller: str, deadline_ns: int) -> bytes:
            deadline = Deadline(deadline_ns * 1e-9) if deadline_ns else None
            call = Call(caller, deadline, between_steps=between_steps)
            try:
                return write(answer(method, read(payload), call))
            finally:
                call.end()

        return respond

    def _plain_responder(self, method: Method, handle: Handler) -> Respond:
        """Return the responder of a handler that takes no `Call`: making one takes as long as most of them run."""
        read, write = DECODERS[method.request], response_encoder(method)
        engine, name, switch = self._host.spec.engine, method.name, self._host.switch

        def respond(payload: bytes, caller: str, deadline_ns: int) -> bytes:
            if name in switch.refused:
                switch.check(method)
            try:
                return write(handle(read(payload)))
            except BaseException as error:  # a handler is foreign code and may raise anything
                raise_wire_error(engine, name, error)

        return respond

    def _begin(self, runs: frozenset[Runs], executor: AdaptiveExecutor | None, call: ServerCall) -> None:
        """Start to answer the call; never blocks."""
        try:
            raw = self._raw_handler(call.path) if call.path else None
            if raw is not None:
                self._run(call, partial(self._answer_raw, raw, call), executor)
                return
            method = None if call.path else BY_ID.get(call.method)
            if method is None:
                raise unknown_method(call.name)
            self._check_shape(method, call)
            if method.stream is not None:
                self._run(call, partial(self._answer_stream, method, call), executor)
            elif self._host.runs(method) in runs:
                self._answer(method, call)
            else:
                self._run(call, partial(self._answer, method, call), executor)
        except BaseException as error:  # foreign services may raise anything; the thread feeds other clients too
            if is_interruption(error):
                raise
            call.fail(to_wire_error(self._host.spec.engine, call.name, error))

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
            raw = raw or services.handler(path)
        return raw

    @staticmethod
    def _check_shape(method: Method, call: ServerCall) -> None:
        expected = Shape.UNARY if method.stream is None else Shape.SERVER_STREAM
        if call.shape != expected:
            raise LocalProtocolError(
                f"{method.name} was called as {Shape(call.shape).name}, it is {expected.name}",
                hint="use stream()" if method.stream else "use call()",
            )

    # -- on the thread of the handler ---------------------------------------------------------------------------------

    def _answer(self, method: Method, call: ServerCall) -> None:
        """Answer a unary method."""
        try:
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
            answers_later = handler(call)
            if not answers_later and not call.is_over:
                raise EngineFailed(f"the handler of {call.name} returned without an answer")
        except TransportError as error:
            self._fail_if_open(call, error)
        except BaseException as error:  # a handler is foreign code and may raise anything
            self._fail_if_open(call, EngineFailed(f"{call.name} failed: {type(error).__name__}: {error}"))

    @staticmethod
    def _fail_if_open(call: ServerCall, error: TransportError) -> None:
        """Report the error, unless the handler had answered before it raised."""
        if not call.is_ended:
            call.fail(error)


_LAST: Any = object()
