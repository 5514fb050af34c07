"""Credentials of calls, channels and ports, over local channels: what travels, what fails, what handlers are told."""

import contextvars
import importlib
import threading
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, FREE_WAYS, THREADS, WAYS, AioEnds, Driver, OverThreads, Read
from ..ends import method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, entries
from ..registry import each
from ..samples import BEHAVIOURS, TARDY, TOKEN, credentials, giving
from .service_config import RETRIED, Flaky

EXPERIMENTAL: Any = importlib.import_module("grpc.experimental")
UDS = grpc.LocalConnectionType.UDS
#: The only one that both ends can have: an address is no host.
AUTHORITY = ("grpc.default_authority", "robot.lab:443")
#: A way of each driver, and one with each arity's kind of answer.
ONE = {driver: ways[:1] for driver, ways in WAYS.items()}
FEW = {driver: [*ways[:1], next(way for way in ways if way.arity == "unary_stream")] for driver, ways in WAYS.items()}
_MARK = contextvars.ContextVar("mark", default="none")


def _token(text: str) -> Any:
    return grpc.access_token_call_credentials(text)


async def _metadata(read: Read, context: Any) -> bytes:
    await read()
    return repr(entries(context.invocation_metadata())).encode()


async def _channel(ends: Driver, arity: str, *of_channel: Any, options: Any = (AUTHORITY,)) -> Any:
    """Return a local channel with these credentials of its calls, to a method that answers what metadata it got."""
    handlers = {"Method": method_handler(arity, ends.behaviour(arity, _metadata, b"first"))}
    served = await ends.serve(handlers, credentials=grpc.local_server_credentials(UDS))
    of_all = grpc.local_channel_credentials(UDS)
    if of_channel:
        of_all = grpc.composite_channel_credentials(of_all, *of_channel)
    return ends.connect(served.target, options, credentials=of_all)


async def _method(ends: Driver, arity: str = "unary_unary", *of_channel: Any) -> Any:
    return getattr(await _channel(ends, arity, *of_channel), arity)(path())


@each(BOTH, way=ONE, what=BEHAVIOURS.keys())
async def plugin_of_a_call(ends: Driver, way: Way, what: str) -> Record:
    return await _by_a_plugin(ends, way, what)


@each(BOTH, way=WAYS, what=("gives", "fails"))
async def plugin_of_a_call_of_each_kind(ends: Driver, way: Way, what: str) -> Record:
    return await _by_a_plugin(ends, way, what)


async def _by_a_plugin(ends: Driver, way: Way, what: str) -> Record:
    method, given = await _method(ends, way.arity), credentials(BEHAVIOURS[what])
    sent = (("first", "1"), ("authorization", "mine"))
    return await ends.invoke(way, method, metadata=sent, credentials=given, timeout=PATIENCE_S)


@each(BOTH, way=WAYS, what=("gives", "fails"))
async def plugin_of_a_channel(ends: Driver, way: Way, what: str) -> Record:
    method = await _method(ends, way.arity, credentials(BEHAVIOURS[what]), _token("second"))
    return await ends.invoke(way, method, timeout=PATIENCE_S)


@each((THREADS,), way=FEW, failures=(1, 3))
async def each_attempt_has_its_own(ends: OverThreads, way: Way, failures: int) -> Record:
    tokens = iter(range(9))
    asked: list[int] = []

    def plugin(context: Any, callback: Any) -> None:
        asked.append(next(tokens))
        callback((("token", str(asked[-1])),), None)

    flaky = Flaky(ends, failures)
    handlers = {"Method": method_handler(way.arity, flaky.of(way))}
    served = await ends.serve(handlers, credentials=grpc.local_server_credentials(UDS))
    of_channel = grpc.local_channel_credentials(UDS)
    channel = ends.connect(served.target, [AUTHORITY, *RETRIED], credentials=of_channel)
    method = getattr(channel, way.arity)(path())
    seen = await ends.invoke(way, method, credentials=credentials(plugin), timeout=PATIENCE_S)
    return {"call": seen, "met": flaky.met, "asked": asked}


@each(BOTH, way=FEW, what=TARDY.keys())
async def is_late(ends: Driver, way: Way, what: str) -> Record:
    method = await _method(ends, way.arity)
    return await ends.invoke(way, method, credentials=credentials(TARDY[what]), timeout=0.2)


@each(BOTH, way=FREE_WAYS, how={THREADS: ("cancel", "close"), ASYNCIO: ("cancel",)})
async def ends_while_the_plugin_is_asked(ends: Driver, way: Way, how: str) -> Record:
    diary, channel = Diary(), await _channel(ends, way.arity)
    given = credentials(lambda context, callback: diary.note("asked"))
    call = ends.start(way, getattr(channel, way.arity)(path()), credentials=given)
    asked = await ends.aside(diary.after, 1)
    ended = call.cancel() if how == "cancel" else channel.close()
    return {"asked": asked, "ended": ended, **await ends.ended(call)}


@each((THREADS,))
async def many_are_sent_in_their_order(ends: Driver) -> Record:
    of_call = grpc.composite_call_credentials(
        grpc.composite_call_credentials(_token("1"), credentials(giving(TOKEN))), _token("2")
    )
    of_channel = _token("channel"), grpc.composite_call_credentials(_token("a"), _token("b"))
    method = await _method(ends, "unary_unary", *of_channel)
    return await ends.attempt(method, b"", credentials=of_call, metadata=(("first", "1"),), timeout=PATIENCE_S)


@each((THREADS,), failing=(0, 1, 2))
async def one_of_many_fails(ends: Driver, failing: int) -> Record:
    diary = Diary()

    def plugin(number: int) -> Any:
        def behave(context: Any, callback: Any) -> None:
            diary.note(number)
            callback((), RuntimeError(f"of {number}") if number == failing else None)

        return credentials(behave)

    given = grpc.composite_call_credentials(*map(plugin, range(3)))
    call = await ends.attempt(await _method(ends), b"", credentials=given, timeout=PATIENCE_S)
    return {"call": call, "asked": diary.after(failing + 1)}


@each(
    BOTH,
    name={THREADS: ("/robot.Arm/Move", "/a/b/c", "/Move", "Move"), ASYNCIO: ("/robot.Arm/Move",)},
    option=("grpc.default_authority", "grpc.ssl_target_name_override"),
    authority=("robot.lab:443", "robot.lab", "robot:80"),
)
async def plugin_is_told_the_service_and_the_method(ends: Driver, name: str, option: str, authority: str) -> Record:
    diary = Diary()

    def behave(context: Any, callback: Any) -> None:
        diary.note((isinstance(context, grpc.AuthMetadataContext), context.service_url, context.method_name))
        callback((), None)

    method = (await _channel(ends, "unary_unary", options=[(option, authority)])).unary_unary(name)
    call = await ends.attempt(method, b"", credentials=credentials(behave), timeout=PATIENCE_S)
    return {"told": await ends.aside(diary.after, 1), "call": call}


@each((THREADS,))
async def plugin_runs_on_another_thread_in_the_context_of_its_maker(ends: OverThreads) -> Record:
    diary = Diary()

    def behave(context: Any, callback: Any) -> None:
        diary.note((_MARK.get(), threading.get_ident() == here))
        callback((), None)

    here = threading.get_ident()
    method = await _method(ends)

    def call() -> None:
        _MARK.set("maker")
        given = credentials(behave)
        _MARK.set("caller")
        attempt(method, b"", credentials=given, timeout=PATIENCE_S)

    contextvars.copy_context().run(call)
    return {"seen": diary.after(1)}


@each((THREADS,))
async def plugin_may_be_any_callable(ends: Driver) -> Record:
    given = grpc.metadata_call_credentials(lambda context, callback: callback(TOKEN, None), name="mine")  # type: ignore
    return await ends.attempt(await _method(ends), b"", credentials=given, timeout=PATIENCE_S)


@each((THREADS,))
async def metadata_are_invalid_before_the_plugin_is_asked(ends: Driver) -> Record:
    diary = Diary()
    given = credentials(lambda context, callback: diary.note("asked"))
    sent = (("grpc-bad\n", "x"),)
    seen = await ends.attempt(await _method(ends), b"", metadata=sent, credentials=given, timeout=PATIENCE_S)
    return {"call": sorted(seen), "asked": diary.after(0)}


@each(BOTH)
async def plugin_is_not_asked_without_a_server(ends: Driver) -> Record:
    diary = Diary()
    given = credentials(lambda context, callback: diary.note("asked"))
    channel = ends.connect(ends.address(), credentials=grpc.local_channel_credentials(UDS))
    seen = await ends.attempt(channel.unary_unary(path()), b"", credentials=given, timeout=PATIENCE_S)
    return {"code": seen["raised"]["code"], "asked": diary.after(0)}


@each(BOTH, given={THREADS: ("text", None, "of a channel", "of a server"), ASYNCIO: ("text", "of a channel")})
async def of_a_call_are_none(ends: Driver, given: str | None) -> Record:
    wrong: Any = {
        "of a channel": grpc.local_channel_credentials(UDS),
        "of a server": grpc.local_server_credentials(UDS),
    }
    return await ends.attempt(await _method(ends), b"", credentials=wrong.get(given, given), timeout=PATIENCE_S)


@each((THREADS,), given=("text", "of a call"))
async def of_a_channel_are_none(ends: Driver, given: str) -> Record:
    wrong = {"of a call": _token("x")}.get(given, given)
    return attempt(lambda: ends.connect(ends.address(), credentials=wrong) and None)


@each(BOTH, given=("text", None))
async def of_a_port_are_none(ends: Driver, given: str | None) -> Record:
    return attempt(lambda: ends.server().add_secure_port(ends.address(), given) and None)


@each(
    BOTH,
    way=FEW,
    kind={THREADS: ("insecure_channel", "insecure credentials", "composite"), ASYNCIO: ("insecure credentials",)},
)
async def insecure_channel_takes_none(ends: Driver, way: Way, kind: str) -> Record:
    served = await ends.serve({"Method": method_handler(way.arity, ends.behaviour(way.arity, _metadata, b"first"))})
    insecure = EXPERIMENTAL.insecure_channel_credentials()
    of_channel: dict[str, Any] = {
        "insecure_channel": {},
        "insecure credentials": {"credentials": insecure},
        "composite": {"credentials": grpc.composite_channel_credentials(insecure, _token("x"))},
    }
    method = getattr(ends.connect(served.target, **of_channel[kind]), way.arity)(path())
    return await ends.invoke(way, method, credentials=credentials(giving(TOKEN)), timeout=PATIENCE_S)


async def _connection(read: Read, context: Any) -> bytes:
    return _told(context)


def _told(context: Any) -> bytes:
    identity = (context.peer_identities(), context.peer_identity_key())
    return repr((*identity, sorted(context.auth_context().items()))).encode()


@each(BOTH, secure=(False, True))
async def handler_is_told_of_the_connection(ends: Driver, secure: bool) -> Record:
    handlers = {"Method": method_handler("unary_unary", ends.behaviour("unary_unary", _connection))}
    served = await ends.serve(handlers, credentials=grpc.local_server_credentials(UDS) if secure else None)
    arguments: dict[str, Any] = {"credentials": grpc.local_channel_credentials(UDS)} if secure else {}
    method = ends.connect(served.target, **arguments).unary_unary(path())
    return await ends.attempt(method, b"", timeout=PATIENCE_S)


@each((ASYNCIO,))
async def blocking_handler_is_told_of_the_connection(ends: AioEnds) -> Record:
    handlers = {"Method": method_handler("unary_unary", lambda request, context: _told(context))}
    secure = grpc.local_server_credentials(UDS)
    served = await ends.serve(handlers, credentials=secure, migration_thread_pool=ends.pool())
    channel = ends.connect(served.target, credentials=grpc.local_channel_credentials(UDS))
    return await ends.attempt(channel.unary_unary(path()), b"", timeout=PATIENCE_S)


@each((THREADS,), length=(9000, 40_000))
async def are_as_long_as_metadata_may_be(ends: Driver, length: int) -> Record:
    given, sent = credentials(giving((("long", "x" * length),))), (("first", "x" * 9000),)
    seen = await ends.attempt(await _method(ends), b"", metadata=sent, credentials=given, timeout=PATIENCE_S)
    return {"code": seen["raised"]["code"], "text": seen["raised"]["details"].partition(" (")[0]}


@each((THREADS,))
async def future_is_there_before_the_plugin_has_been_asked(ends: OverThreads) -> Record:
    gate, way = ends.gate(), FREE_WAYS[THREADS][0]

    def behave(context: Any, callback: Any) -> None:
        gate.happened_here()
        callback(TOKEN, None)

    call = ends.start(way, await _method(ends), credentials=credentials(behave), timeout=PATIENCE_S)
    before = ends.state(call)
    gate.set()
    return {"before": before, **await ends.finish(way, call)}
