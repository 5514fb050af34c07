"""How an asyncio server answers one call: from finding its handler to the status that its caller gets.

Coroutines and async generators run on the loop, everything else on the thread pool, as grpc.aio does it. Whatever a
handler raises, its caller gets a status, in the words of grpc.aio; nothing but KeyboardInterrupt and SystemExit leaves
`answer`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Any

from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.context import ServicerContext, SyncServicerContext
from lucky_transport_stubs.aio.rpc import ServerRpc
from lucky_transport_stubs.grpc_inside import EOF
from lucky_transport_stubs.server.answering import behaviour_of
from lucky_transport_stubs.words.status import number_of

_log = logging.getLogger("grpc._cython.cygrpc")
_Code = grpc.StatusCode

#: Finds a call's handler, through all interceptors; None where there is none: then the call has its status.
Lookup = Callable[[], Awaitable[Any]]


async def answer(rpc: ServerRpc, lookup: Lookup, pool: Executor | None) -> None:
    """Answer the call: when this returns a status has left, or the handler was cancelled."""
    name = rpc.call.name
    try:
        await _serve(rpc, lookup, pool)
    except asyncio.CancelledError:
        _log.debug("RPC cancelled for servicer method [%s]", name)
    except Exception as error:
        has_left = rpc.call.is_ended and isinstance(error, grpc.aio.InternalError)
        if has_left or error is rpc.abort_error:
            return
        if isinstance(error, grpc.aio.AbortError):
            error = AssertionError("Abort error has been replaced!")
        _log.exception("Unexpected [%s] raised by servicer method [%s]", type(error).__name__, name)
        if not rpc.is_finished:
            rpc.end_with(rpc.number or number_of(_Code.UNKNOWN), f"Unexpected {type(error)}: {error}")
    else:
        if rpc.abort_error is not None:
            text = "".join(traceback.format_exception(rpc.abort_error))
            _log.error("Abort error unexpectedly suppressed: %s", text)


async def _serve(rpc: ServerRpc, lookup: Lookup, pool: Executor | None) -> None:
    handler = await lookup()
    if handler is None:
        return
    context = ServicerContext(rpc, handler.request_deserializer, handler.response_serializer)
    function: Any = behaviour_of(handler)
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    blocking = None if is_async else SyncServicerContext(context, rpc)
    if handler.request_streaming:
        request = _requests(context) if blocking is None else blocking.requests()
    else:
        request = await context.read()
        if request is EOF:
            text = f'"{rpc.call.path.encode()}" requires exactly one request message.'
            rpc.fail(_Code.UNIMPLEMENTED, text)
            return
    if handler.response_streaming:
        await _stream(function, request, context, blocking, pool)
        rpc.check()
    else:
        response = await (
            function(request, context)
            if blocking is None
            else rpc.loop.run_in_executor(pool, function, request, blocking)
        )
        rpc.check()
        if not rpc.number:
            await context.write(response)
        elif not rpc.has_started:
            rpc.send_headers(())  # in gRPC an empty response goes out with such a status: the call is not made again
    rpc.end()


async def _requests(context: ServicerContext) -> AsyncIterator[Any]:
    while (message := await context.read()) is not EOF:
        yield message


async def _stream(
    function: Any, request: Any, context: ServicerContext, blocking: SyncServicerContext | None, pool: Executor | None
) -> None:
    """Have the handler send its responses: by itself, by yielding them, or from a thread of the pool."""
    if blocking is not None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(pool, lambda: blocking.send_all(function(request, blocking)))
    elif inspect.iscoroutinefunction(function):
        await function(request, context)
    else:
        async with aclosing(function(request, context)) as responses:  # it ends here, not in a task of its own
            async for response in responses:
                await context.write(response)
