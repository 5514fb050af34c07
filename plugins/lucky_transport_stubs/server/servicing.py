"""What a server does with a call that comes in: find its handler, and have it run where it belongs.

`begin` runs on the thread that reads for all callers, so nothing but interceptors and inline methods of the user's runs
there. A call is refused in grpc.server's own words and order: no handler, then too many calls.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from concurrent.futures import Executor, ThreadPoolExecutor, thread
from functools import cached_property, partial
from types import FunctionType
from typing import Any

from lucky_transport.handler_options import is_inline
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.rpc.workers.adaptive_executor import CountedPool
from lucky_transport.shm.listener.server_loop import ServerThread
from lucky_transport_stubs.server.admission import Admission
from lucky_transport_stubs.server.answering import answer_call, behaviour_of
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.server.context import ServicerContext
from lucky_transport_stubs.server.handlers import Handlers
from lucky_transport_stubs.words.credentials import INSECURE, PortSecurity
from lucky_transport_stubs.words.status import Code

_log = logging.getLogger("grpc._server")


class Servicing:
    """Answers the calls of one server that `admission` lets in. handlers: what it answers.

    max_send_bytes: see `ServerCallState`.
    """

    def __init__(
        self, handlers: Handlers, pool: Executor, admission: Admission, max_send_bytes: int | None = None
    ) -> None:
        self.handlers = handlers
        self.admission = admission
        self._pool = pool
        self._max_send_bytes = max_send_bytes
        # By path: a registered handler, and what `begin` asks of it.
        self._known: dict[str, tuple[Any, Any, Any, bool]] = {}

    @cached_property
    def slots(self) -> CountedPool | None:
        """The pool, for `ServerThread`; None where every handler is to be submitted to it."""
        return _slots(self._pool)

    def begin(self, call: ServerCall, port: ServerThread, security: PortSecurity = INSECURE) -> None:
        """Start to answer a call that `port`, of this security, has received."""
        if self.admission.is_refusing:
            self.admission.turn_away(call)
            return
        handlers, state = self.handlers, ServerCallState(call, self._max_send_bytes, security)
        context = contextvars.Context()  # what an interceptor sets in it the method sees, as in gRPC
        try:
            handler = None if handlers.is_intercepted else handlers.registered.get(call.path)
            if handler is None:
                handler = context.run(handlers.find, call.path, call.metadata)
        except BaseException as error:  # foreign code; SystemExit too ends the call alone
            _log.exception("Exception servicing handler: %s", error)
            state.fail(Code.UNKNOWN, "Error in service handler!")
            return
        if (handler is None or self.admission.is_limited) and not self.admission.admits(state, handler):
            return
        if handlers.is_intercepted and call.path in handlers.registered:
            state.name = b""
        try:
            known, method, own_pool, inline = self._known.get(call.path, (None, None, None, False))
            if known is not handler:
                method = behaviour_of(handler)
                own_pool, inline = getattr(method, "experimental_thread_pool", None), is_inline(method)
                if call.path in handlers.registered:
                    self._known[call.path] = handler, method, own_pool, inline
            seen = ServicerContext(state, port.deadline_timer.watch)
            task = partial(self._answer, context, handler, method, state, seen)
            if inline and not call.shape:
                task()
            elif not call.shape and own_pool is None and port.executor is not None:
                port.executor.run(call.path, task, partial(self._not_taken, state))
            else:
                try:
                    (own_pool or self._pool).submit(task)
                except Exception as error:  # it was shut down before the server, or takes no more
                    self._not_taken(state, error)
        except Exception as error:
            self.admission.leave()
            _fail_without_handler(state, error)

    def _answer(
        self, context: contextvars.Context, handler: Any, method: Any, state: ServerCallState, seen: ServicerContext
    ) -> None:
        try:
            context.run(answer_call, handler, method, state, seen)
        except Exception as error:
            _fail_without_handler(state, error)
        finally:
            if self.admission.is_limited:
                self.admission.leave()

    def _not_taken(self, state: ServerCallState, error: Exception) -> None:
        self.admission.leave()
        state.fail(Code.UNAVAILABLE, str(error))


def _fail_without_handler(state: ServerCallState, error: Exception) -> None:
    """Fail a call for which an interceptor, or a generic handler, returned what is no handler."""
    _log.error("%s: what was found for it is no grpc.RpcMethodHandler", state.call.path, exc_info=error)
    state.fail(Code.INTERNAL, f"Found no grpc.RpcMethodHandler: {error}")


def _slots(pool: Executor) -> CountedPool | None:
    """Return the pool as one from which handlers may be taken to run elsewhere; None where they would notice.

    A pool of one thread, or one that prepares its threads, is often there for the sake of these very threads; and one
    with parts that are not ThreadPoolExecutor's own may do something for each task.
    """
    threads = getattr(pool, "_max_workers", 1)
    if not _is_plain(pool) or threads == 1 or getattr(pool, "_initializer", None) is not None:
        return None
    return CountedPool(lambda task: pool.submit(task), threads)  # it may be replaced later


def _is_plain(pool: Executor) -> bool:
    """True for a ThreadPoolExecutor of which nothing was replaced: neither in it, nor in its class, nor its threads."""
    inside: Any = thread
    parts = (ThreadPoolExecutor.submit, inside.ThreadPoolExecutor._adjust_thread_count, inside._worker)
    return (
        type(pool) is ThreadPoolExecutor
        and {"submit", "_adjust_thread_count"}.isdisjoint(vars(pool))
        and all(type(part) is FunctionType and part.__globals__ is vars(thread) for part in parts)
        and threading.Thread.__module__ == "threading"
    )
