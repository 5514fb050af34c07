"""What the objects look like that a program holds: their classes, texts, names and private parts that programs read."""

import importlib
from typing import Any

import grpc

from tests.support.appearance import appearance

from ..aio_ends import AioEnds
from ..both import ASYNCIO, FREE_WAYS, THREADS, Held, OverThreads
from ..ends import ARITIES, Ends, generic_handler, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, entries
from ..registry import case, each


@case
def of_a_channel_and_a_server(ends: Ends) -> Record:
    server = ends.server()
    with ends.connect(ends.address()) as channel:
        return {
            "server": appearance(server, "server"),
            "channel": appearance(channel, "channel"),
            "state": channel._channel.check_connectivity_state(False),
            "target": type(channel._channel.target()).__name__,
            "dialled": getattr(channel, "_target", ends.addresses[-1]) == ends.addresses[-1],  # not in 1.60
        }


@each((THREADS,))
async def of_a_channel_and_a_server_at_work(ends: OverThreads) -> Record:
    held, target = Held(ends), ends.address()
    behaviour = ends.behaviour("unary_unary", held.answer)
    server = ends.server(generic_handler({"Method": method_handler("unary_unary", behaviour)}))
    server.add_insecure_port(target)
    stages = [server._state.stage.name]
    server.start()
    stages.append(server._state.stage.name)
    channel = ends.connect(target)
    grpc.channel_ready_future(channel).result(PATIENCE_S)
    state = channel._connectivity_state
    seen = [state.connectivity, state.channel.target() == channel._channel.target()]
    call = channel.unary_unary(path()).future(b"request", timeout=PATIENCE_S)
    await held.begun.happened()
    over = server.stop(PATIENCE_S)
    stages.append(server._state.stage.name)
    held.let_go()
    call.result()
    over.wait(PATIENCE_S)
    stages.append(server._state.stage.name)
    return {
        "stages": stages,
        "over": appearance(over)["class"],
        "channel": seen,
        "number": channel._channel.check_connectivity_state(True) in range(5),
    }


@each(arity=ARITIES)
def of_a_method(ends: Ends, arity: str) -> Record:
    method = getattr(ends.connect(ends.address()), arity)(path(), str.encode, bytes.decode)
    inside = getattr(importlib.import_module("grpc._channel"), f"_{arity.title().replace('_', '')}MultiCallable")
    same = method._channel.target() == ends.connect(ends.addresses[-1])._channel.target()
    return {
        "method": appearance(method, "method"),
        "transforms": (method._request_serializer is str.encode, method._response_deserializer(b"x") == "x"),
        "inside": isinstance(method, inside),
        "path": method._method,
        "target": same,
    }


@each((THREADS,), way=FREE_WAYS)
async def of_a_call(ends: OverThreads, way: Way) -> Record:
    held = Held(ends, reads=False)
    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, held.answer)), timeout=PATIENCE_S)
    before = {"call": appearance(call, "call"), "code": call._state.code, "due": bool(call._state.due)}
    held.let_go()
    await ends.result(way, call)
    return {"before": before, "after": appearance(call, "call"), "str": str(call) == repr(call), **_state_of(call)}


def _state_of(call: Any) -> Record:
    call.initial_metadata()  # of a stream they are an operation of their own, which gRPC may note after the status
    state = call._state
    seen = {name: getattr(state, name) for name in ("code", "details", "debug_error_string")}
    return {
        **{name: value.decode() if isinstance(value, bytes) else value for name, value in seen.items()},
        "due": state.due,
        "trailing": entries(state.trailing_metadata),
        "initial": entries(state.initial_metadata),
    }


@each(style=("blocking", "future", "iterator"))
def of_a_call_that_failed(ends: Ends, style: str) -> Record:
    def fail(request: bytes, context: Any) -> Any:
        context.set_trailing_metadata((("key", "value"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "gone")

    method = ends.method("unary_stream" if style == "iterator" else "unary_unary", fail)
    try:
        if style == "blocking":
            method(b"request", timeout=PATIENCE_S)
        elif style == "future":
            method.future(b"request", timeout=PATIENCE_S).result()
        else:
            list(method(b"request", timeout=PATIENCE_S))
    except grpc.RpcError as error:
        seen = _state_of(error)
        del seen["debug_error_string"]
        looks = appearance(error, "error")
        return {"class": looks["class"], "classes": looks["classes"], **seen}
    return {}


@each((THREADS,), way=FREE_WAYS)
async def of_a_context(ends: OverThreads, way: Way) -> Record:
    diary = Diary()
    inside = importlib.import_module("grpc._server")._Context

    def one(request: Any, context: Any) -> bytes:
        diary.note(appearance(request)["class"])
        if way.arity.startswith("stream"):
            list(request)
        event, state = context._rpc_event, context._state
        diary.note((appearance(context, "context"), isinstance(context, inside)))
        diary.note((event.call_details.method, type(event.call_details.host), event.call_details.deadline > 0))
        diary.note(event.call.peer().decode() == context.peer())
        diary.note(entries(event.invocation_metadata[1:]))
        diary.note((state.client, state.code, state.details, state.trailing_metadata, state.aborted, bool(state.due)))
        context.set_code(grpc.StatusCode.NOT_FOUND)
        context.set_details("gone")
        context.set_trailing_metadata((("key", "value"),))
        diary.note((state.code, state.details, state.trailing_metadata))
        return b"response"

    behaviour = (lambda *given: iter((one(*given),))) if way.arity.endswith("stream") else one
    call = ends.start(way, await ends.method(way.arity, behaviour), metadata=(("key", "sent"),))
    return {"end": await ends.result(way, call), "context": diary.after(7)}


@case
def of_a_context_that_aborted_or_whose_caller_left(ends: Ends) -> Record:
    diary, there, over = Diary(), ends.gate(), ends.gate()

    def abort(request: bytes, context: Any) -> None:
        try:
            context.abort(grpc.StatusCode.NOT_FOUND, "gone")
        finally:
            diary.note(("aborted", context._state.aborted, context._state.code, context._state.details))

    def wait(request: bytes, context: Any) -> bytes:
        context.add_callback(over.set)
        there.set()
        over.wait(PATIENCE_S)
        diary.note(("left", context._state.client, context._state.aborted))
        return b""

    def set_state(request: bytes, context: Any) -> bytes:
        context._state.code, context._state.details = grpc.StatusCode.DATA_LOSS, b"lost"
        return b"response"

    methods = {"Abort": abort, "Wait": wait, "Set": set_state}
    served = ends.serve({name: method_handler("unary_unary", one) for name, one in methods.items()})
    channel = ends.connect(served.target)
    attempt(channel.unary_unary(path("Abort")), b"request")
    call = channel.unary_unary(path("Wait")).future(b"request")
    there.wait(PATIENCE_S)
    call.cancel()
    diary.after(2)
    return {"diary": diary.after(2), "set": attempt(channel.unary_unary(path("Set")), b"request")}


@case
def of_what_interceptors_get(ends: Ends) -> Record:
    diary = Diary()

    class Looking(grpc.ServerInterceptor):
        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            known = handler_call_details._replace(invocation_metadata=())
            diary.note((appearance(known), known.method, known.invocation_metadata))
            return continuation(handler_call_details)

    server = ends.server(interceptors=(Looking(),))
    server.add_generic_rpc_handlers((generic_handler({"Method": method_handler("unary_unary", lambda r, c: r)}),))
    attempt(ends.connect(ends.begin_at(server)).unary_unary(path()), b"request")
    known = [sorted(handler._method_handlers) for handler in server._state.generic_handlers]
    return {"details": diary.after(1), "handlers": known}


@each((ASYNCIO,))
async def of_an_asyncio_channel_and_server(ends: AioEnds) -> Record:
    channel = ends.connect(ends.address())
    target = ends.addresses[-1].encode()
    return {
        "server": appearance(ends.server()),
        "channel": appearance(channel, "channel"),
        "target": getattr(channel._channel, "target", target) == target,  # not in 1.60
    }


@each((ASYNCIO,), arity=ARITIES)
async def of_an_asyncio_method(ends: AioEnds, arity: str) -> Record:
    method = getattr(ends.connect(ends.address()), arity)(path())
    return {"method": appearance(method, "method"), "path": method._method}


@each((ASYNCIO,), blocking=(True, False))
async def of_an_asyncio_context(ends: AioEnds, blocking: bool) -> Record:
    seen: list[Any] = []

    def look(request: bytes, context: Any) -> bytes:
        looks = appearance(context)
        del looks["classes"]  # see `aio_contexts.is_a_servicer_context`
        seen.append((looks, [hasattr(context, name) for name in ("_state", "_rpc_event")]))
        return request

    async def look_on_the_loop(request: bytes, context: Any) -> bytes:
        return look(request, context)

    method = await ends.unary_unary(look if blocking else look_on_the_loop, migration_thread_pool=ends.pool())
    return {"response": await method(b"request"), "context": seen}


@each((ASYNCIO,), arity=ARITIES)
async def of_an_asyncio_call(ends: AioEnds, arity: str) -> Record:
    held, way = Held(ends), Way(arity, "iterate")
    call = ends.start(way, await ends.method(arity, ends.behaviour(arity, held.answer)))
    before = appearance(call)
    held.let_go()
    taken = await ends.result(way, call)
    await call.code()
    after = appearance(call)
    after["repr"] = after["repr"].partition("\n")[0]  # grpc.aio shows code and details in each other's place
    return {"before": before, "taken": taken, "after": after}
