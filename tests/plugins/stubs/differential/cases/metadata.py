"""Metadata: what may be sent, in which order it comes, and where it is refused."""

from collections.abc import Awaitable
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, FREE_WAYS, THREADS, WAYS, AioEnds, Driver, Held, Read
from ..ends import ARITIES, Ends
from ..records import PATIENCE_S, Record, Way, classes, entries, error
from ..registry import case, each
from ..samples import DANGEROUS, INVALID, ODD, SENT

WITH_CALL = {THREADS: [Way("unary_unary", "with_call")], ASYNCIO: WAYS[ASYNCIO][:1]}
WITH_STREAM = {
    driver: [*ways, next(way for way in WAYS[driver] if way.arity == "unary_stream")]
    for driver, ways in WITH_CALL.items()
}
STYLES = {
    THREADS: [Way("unary_unary", "blocking"), Way("unary_unary", "future"), Way("unary_stream", "iterator")],
    ASYNCIO: WAYS[ASYNCIO][:1],
}


async def _echo(read: Read, context: Any) -> bytes:
    """Send all metadata back in both places, but what every implementation adds for itself."""
    back = tuple(entry for entry in context.invocation_metadata() if entry[0] != "user-agent")
    await context.send_initial_metadata(back)
    context.set_trailing_metadata(back)
    return await read()


async def _answer(read: Read, context: Any) -> bytes:
    return b"response"


async def _called(ends: Driver, way: Way, answer: Any, *first: bytes, **options: Any) -> Record:
    """Return all there is to see of a call that such a handler answers."""
    method = await ends.method(way.arity, ends.behaviour(way.arity, answer, *first))
    return await ends.invoke(way, method, timeout=PATIENCE_S, **options)


async def _refusal(awaitable: Awaitable[Any]) -> bytes:
    try:
        await awaitable
    except Exception as raised:
        return repr(error(raised)).encode()
    return b"accepted"


#: What grpc.aio does not send, and then never ends.
UNSENT = "text in a binary key"


@each(BOTH, sent={THREADS: (*SENT,), ASYNCIO: [name for name in SENT if name != UNSENT]}, way=WITH_STREAM)
async def goes_there_and_back(ends: Driver, way: Way, sent: str) -> Record:
    return await _called(ends, way, _echo, metadata=SENT[sent])


async def _sent_by_the_client(ends: Driver, way: Way, metadata: Any) -> Record:
    """Return what becomes of a call with this metadata, and what a handler sees of it."""
    seen: list[Any] = []

    async def answer(read: Read, context: Any) -> bytes:
        seen.append(entries(context.invocation_metadata()))
        return b"response"

    method = await ends.method(way.arity, ends.behaviour(way.arity, answer))
    if ends.driver == ASYNCIO:  # where gRPC's call never ends that was not even sent
        outcome = await ends.attempt(method, b"request", metadata=metadata, timeout=5)
    else:
        outcome = await ends.invoke(way, method, metadata=metadata, timeout=PATIENCE_S)
    return {"outcome": outcome, "handler saw": seen}


@each(BOTH, sent=(*INVALID,), way=STYLES)
async def is_invalid_on_the_client(ends: Driver, sent: str, way: Way) -> Record:
    return await _sent_by_the_client(ends, way, INVALID[sent])


@each(BOTH, sent={THREADS: (*ODD, *DANGEROUS), ASYNCIO: (*ODD, UNSENT)}, way=STYLES)
async def is_odd_on_the_client(ends: Driver, sent: str, way: Way) -> Record:
    return await _sent_by_the_client(ends, way, (SENT | ODD | DANGEROUS)[sent])


async def _sent_by_the_server(ends: Driver, place: str, metadata: Any) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        if place == "initial":
            await context.send_initial_metadata(metadata)
        else:
            context.set_trailing_metadata(metadata)
        return b"response"

    return await ends.attempt(
        await ends.method("unary_unary", ends.behaviour("unary_unary", answer)), b"request", timeout=2
    )


@each(BOTH, sent=(*INVALID,), place=("initial", "trailing"))
async def is_invalid_on_the_server(ends: Driver, sent: str, place: str) -> Record:
    return await _sent_by_the_server(ends, place, INVALID[sent])


# gRPC's server of threads never answers where the last are odd.
@each(BOTH, sent=(*ODD,), place={THREADS: ("initial",), ASYNCIO: ("initial", "trailing")})
async def is_odd_on_the_server(ends: Driver, sent: str, place: str) -> Record:
    return await _sent_by_the_server(ends, place, ODD[sent])


@each(BOTH, way=WITH_CALL)
async def is_sent_again(ends: Driver, way: Way) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        await context.send_initial_metadata((("first", "1"),))
        return await _refusal(context.send_initial_metadata((("second", "2"),)))

    return await _called(ends, way, answer)


@each(BOTH)
async def is_sent_after_the_first_item(ends: Driver) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        return await _refusal(context.send_initial_metadata((("late", "1"),)))

    return await _called(ends, WITH_STREAM[ends.driver][-1], answer, b"item")


@each(BOTH, way=WITH_CALL)
async def is_set_twice_as_trailing_metadata(ends: Driver, way: Way) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        context.set_trailing_metadata((("first", "1"),))
        context.set_trailing_metadata((("second", "2"),))
        return b"response"

    return await _called(ends, way, answer)


# Not for unary_unary: there gRPC knows the initial metadata when it knows the response.
@each(BOTH, way={THREADS: FREE_WAYS[THREADS][1:], ASYNCIO: WITH_STREAM[ASYNCIO][1:]})
async def comes_before_the_response(ends: Driver, way: Way) -> Record:
    held = Held(ends, reads=False)

    async def answer(read: Read, context: Any) -> bytes:
        await context.send_initial_metadata((("early", "yes"),))
        return await held.answer(read, context)

    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, answer)))
    seen: Record = {"begun": await held.begun.happened(), "early": await ends.initial(call), **ends.state(call)}
    held.let_go()
    return {**seen, "end": await ends.finish(way, call)}


@each(BOTH)
async def comes_with_the_first_item_where_none_was_sent(ends: Driver) -> Record:
    way = WITH_STREAM[ends.driver][-1]
    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, _answer, b"item")))
    return {"first": await ends.first(way, call), "initial": await ends.initial(call)}


def _types(metadata: Any) -> Record:
    return {
        "container": type(metadata).__name__,
        "entries": sorted({type(entry).__name__ for entry in metadata}),
        "named": [(entry.key, entry.value) for entry in metadata if entry.key != "user-agent"],
        "tuples": [isinstance(entry, tuple) and classes(entry) for entry in metadata if entry.key != "user-agent"],
    }


@case
def has_entries_with_names(ends: Ends) -> Record:
    there: list[Record] = []

    def behaviour(request: bytes, context: Any) -> bytes:
        there.append(_types(context.invocation_metadata()))
        context.send_initial_metadata(sent)
        context.set_trailing_metadata(sent)
        return request

    sent = (("key", "value"), ("key-bin", b"\x01"))
    _, call = ends.unary_unary(behaviour).with_call(b"request", metadata=sent)
    return {"there": there, "initial": _types(call.initial_metadata()), "trailing": _types(call.trailing_metadata())}


@each((ASYNCIO,))
async def is_a_mapping_of_lists(ends: AioEnds) -> Record:
    there: list[Any] = []

    async def behaviour(request: bytes, context: Any) -> bytes:
        received = context.invocation_metadata()
        there.extend((type(received).__name__, [tuple(entry) for entry in received if entry[0] != "user-agent"]))
        context.set_trailing_metadata((("key", "1"), ("key", "2")))
        return request

    metadata = grpc.aio.Metadata(("key", "1"), ("other", "x"), ("key", "2"), ("key-bin", b"\x00"))
    call = (await ends.unary_unary(behaviour))(b"request", metadata=metadata)
    initial = await call.initial_metadata()  # waits for them
    await call
    trailing = await call.trailing_metadata()
    return {
        "there": there,
        "type": type(trailing).__name__,
        "first": trailing["key"],
        "all": list(trailing.get_all("key")),
        "initial": type(initial).__name__,
    }


async def _agents(read: Read, context: Any) -> bytes:
    return " ".join(value for key, value in context.invocation_metadata() if key == "user-agent").encode()


@each(BOTH, placement=("none", "primary", "secondary"))
async def names_the_client_and_the_program(ends: Driver, placement: str) -> Record:
    options = ((f"grpc.{placement}_user_agent", "program/1.0"),)
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", _agents), channel_options=options)
    names = [name.split("/")[0] for name in (await ends.attempt(method, b""))["value"].decode().split()]
    return {"first": names[0], "last": names[-1] == "program"}


@each(BOTH, entries_=(1, 8), size=(1_000, 60_000))
async def is_larger_than_allowed(ends: Driver, entries_: int, size: int) -> Record:
    metadata = tuple((f"key{number}", "x" * (size // entries_)) for number in range(entries_))
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", _answer))
    return _without_sizes(await ends.attempt(method, b"request", metadata=metadata))


@each(
    BOTH,
    place=("initial", "trailing", "of an abort", "details"),
    size=(1_000, 60_000),
    way={
        THREADS: WITH_STREAM[THREADS],
        ASYNCIO: [next(way for way in WAYS[ASYNCIO] if way.arity == arity) for arity in ARITIES],
    },
)
async def is_larger_than_allowed_from_the_server(ends: Driver, place: str, size: int, way: Way) -> Record:
    large = (("key", "x" * size),)

    async def answer(read: Read, context: Any) -> bytes:
        await read()
        if place == "initial":
            await context.send_initial_metadata(large)
        elif place != "details":
            context.set_trailing_metadata(large)
        if place in ("of an abort", "details"):
            await context.abort(grpc.StatusCode.NOT_FOUND, "x" * size if place == "details" else "gone")
        return b"response"

    return _without_sizes(await _called(ends, way, answer))


def _without_sizes(seen: Any) -> Any:
    """What was too large is what matters: the text counts HTTP/2's frames, and items before the end come or not."""
    if not isinstance(seen, dict):
        return seen
    kept = {key: _without_sizes(inner) for key, inner in seen.items() if key not in ("items", "text")}
    return kept | ({"details": "metadata" in (kept["details"] or "")} if "details" in kept else {})


@each((THREADS,), size=(1_000, 20_000))
async def has_a_limit_of_its_own(ends: Driver, size: int) -> Record:
    options = (("grpc.max_metadata_size", 40_000), ("grpc.absolute_max_metadata_size", 50_000))
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", _answer), options=options)
    return _without_sizes(await ends.attempt(method, b"request", metadata=(("key", "x" * size),)))
