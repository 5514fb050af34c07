"""Credentials of calls, channels and ports, over local channels: what travels, what fails, what handlers are told."""

from __future__ import annotations

import contextvars
import importlib
import threading
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..both import THREADS, OverThreads
from ..ends import Ends, method_handler, path
from ..invoking import FREE_WAYS, WAYS, Way, answering, argument, ended, invoke
from ..plugins import BEHAVIOURS, TARDY, TOKEN, credentials, giving
from ..records import PATIENCE_S, Diary, Record, attempt, entries
from ..registry import case, each
from .service_config import RETRIED, Flaky

EXPERIMENTAL: Any = importlib.import_module("grpc.experimental")
UDS = grpc.LocalConnectionType.UDS
#: The only one that both ends can have: an address is no host.
AUTHORITY = ("grpc.default_authority", "robot.lab:443")
_MARK = contextvars.ContextVar("mark", default="none")


def _token(text: str) -> Any:
    return grpc.access_token_call_credentials(text)


def _metadata(context: Any) -> bytes:
    return repr(entries(context.invocation_metadata())).encode()


def _method(ends: Ends, arity: str = "unary_unary", *of_channel: Any, answer: Any = None) -> Any:
    """Return a method that answers what metadata it got, over a local channel with these credentials of its calls."""
    answer = answer or (lambda requests, context: _metadata(context))
    handlers = {"Method": method_handler(arity, answering(arity, answer))}
    served = ends.serve(handlers, credentials=grpc.local_server_credentials(UDS))
    of_all = grpc.local_channel_credentials(UDS)
    if of_channel:
        of_all = grpc.composite_channel_credentials(of_all, *of_channel)
    return getattr(ends.connect(served.target, [AUTHORITY], credentials=of_all), arity)(path())


@each(way=WAYS, what=BEHAVIOURS)
def plugin_of_a_call(ends: Ends, way: Way, what: str) -> Record:
    method, given = _method(ends, way.arity), credentials(BEHAVIOURS[what])
    sent = (("first", "1"), ("authorization", "mine"))
    return invoke(way.style, method, argument(way.arity), metadata=sent, credentials=given, timeout=PATIENCE_S)


@each(way=WAYS, what=("gives", "fails"))
def plugin_of_a_channel(ends: Ends, way: Way, what: str) -> Record:
    method = _method(ends, way.arity, credentials(BEHAVIOURS[what]), _token("second"))
    return invoke(way.style, method, argument(way.arity), timeout=PATIENCE_S)


@each((THREADS,), way=WAYS, failures=(1, 3))
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


@each(way=WAYS, what=TARDY)
def is_late(ends: Ends, way: Way, what: str) -> Record:
    method = _method(ends, way.arity)
    return invoke(way.style, method, argument(way.arity), credentials=credentials(TARDY[what]), timeout=0.2)


@each(way=FREE_WAYS)
def is_cancelled_while_the_plugin_is_asked(ends: Ends, way: Way) -> Record:
    diary = Diary()
    method = _method(ends, way.arity)
    given = credentials(lambda context, callback: diary.note("asked"))
    call = getattr(method, "future", method)(argument(way.arity), credentials=given)
    asked = diary.after(1)
    return {"asked": asked, "cancel": call.cancel(), "code": call.code().name, "details": call.details()}


@each(way=FREE_WAYS)
def channel_is_closed_while_the_plugin_is_asked(ends: Ends, way: Way) -> Record:
    diary = Diary()
    handlers = {"Method": method_handler(way.arity, answering(way.arity, lambda requests, context: b""))}
    served = ends.serve(handlers, credentials=grpc.local_server_credentials(UDS))
    channel = ends.connect(served.target, credentials=grpc.local_channel_credentials(UDS))
    method = getattr(channel, way.arity)(path())
    given = credentials(lambda context, callback: diary.note("asked"))
    call = getattr(method, "future", method)(argument(way.arity), credentials=given)
    asked = diary.after(1)
    channel.close()
    return {"asked": asked, "code": call.code().name, "details": call.details()}


@case
def many_are_sent_in_their_order(ends: Ends) -> Record:
    of_call = grpc.composite_call_credentials(
        grpc.composite_call_credentials(_token("1"), credentials(giving(TOKEN))), _token("2")
    )
    method = _method(ends, "unary_unary", _token("channel"), grpc.composite_call_credentials(_token("a"), _token("b")))
    return attempt(method, b"", credentials=of_call, metadata=(("first", "1"),), timeout=PATIENCE_S)


@each(failing=(0, 1, 2))
def one_of_many_fails(ends: Ends, failing: int) -> Record:
    diary = Diary()

    def plugin(number: int) -> Any:
        def behave(context: Any, callback: Any) -> None:
            diary.note(number)
            callback((), RuntimeError(f"of {number}") if number == failing else None)

        return credentials(behave)

    method = _method(ends)
    given = grpc.composite_call_credentials(*map(plugin, range(3)))
    return {"call": attempt(method, b"", credentials=given, timeout=PATIENCE_S), "asked": diary.after(failing + 1)}


@each(name=("/robot.Arm/Move", "/a/b/c", "/Move", "Move"), authority=("robot.lab:443", "robot.lab", "robot:80"))
def plugin_is_told_the_service_and_the_method(ends: Ends, name: str, authority: str) -> Record:
    diary = Diary()

    def behave(context: Any, callback: Any) -> None:
        diary.note((isinstance(context, grpc.AuthMetadataContext), context.service_url, context.method_name))
        callback((), None)

    served = ends.serve({}, credentials=grpc.local_server_credentials(UDS))
    options = [("grpc.default_authority", authority)]
    channel = ends.connect(served.target, options, credentials=grpc.local_channel_credentials(UDS))
    call = attempt(channel.unary_unary(name), b"", credentials=credentials(behave), timeout=PATIENCE_S)
    return {"told": diary.after(1), "call": call}


@case
def target_name_override_is_the_authority(ends: Ends) -> Record:
    diary = Diary()

    def behave(context: Any, callback: Any) -> None:
        diary.note(context.service_url)
        callback((), None)

    served = ends.serve({}, credentials=grpc.local_server_credentials(UDS))
    of_channel = grpc.composite_channel_credentials(grpc.local_channel_credentials(UDS), credentials(behave))
    channel = ends.connect(served.target, [("grpc.ssl_target_name_override", "me")], credentials=of_channel)
    attempt(channel.unary_unary(path()), b"", timeout=PATIENCE_S)
    return {"told": diary.after(1)}


@case
def plugin_runs_on_another_thread_in_the_context_of_its_maker(ends: Ends) -> Record:
    diary = Diary()

    def behave(context: Any, callback: Any) -> None:
        diary.note((_MARK.get(), threading.get_ident() == here))
        callback((), None)

    here = threading.get_ident()

    def run() -> None:
        _MARK.set("maker")
        given = credentials(behave)
        _MARK.set("caller")
        attempt(_method(ends), b"", credentials=given, timeout=PATIENCE_S)

    contextvars.copy_context().run(run)
    return {"seen": diary.after(1)}


@case
def plugin_may_be_any_callable(ends: Ends) -> Record:
    given = grpc.metadata_call_credentials(lambda context, callback: callback(TOKEN, None), name="mine")  # type: ignore
    return attempt(_method(ends), b"", credentials=given, timeout=PATIENCE_S)


@case
def metadata_are_invalid_before_the_plugin_is_asked(ends: Ends) -> Record:
    diary = Diary()
    given = credentials(lambda context, callback: diary.note("asked"))
    seen = attempt(_method(ends), b"", metadata=(("grpc-bad\n", "x"),), credentials=given, timeout=PATIENCE_S)
    return {"call": sorted(seen), "asked": diary.after(0)}


@case
def plugin_is_not_asked_without_a_server(ends: Ends) -> Record:
    diary = Diary()
    given = credentials(lambda context, callback: diary.note("asked"))
    channel = ends.connect(ends.address(), credentials=grpc.local_channel_credentials(UDS))
    seen = attempt(channel.unary_unary(path()), b"", credentials=given, timeout=PATIENCE_S)
    return {"code": seen["raised"]["code"], "asked": diary.after(0)}


@each(given=("text", None, "of a channel", "of a server"))
def of_a_call_are_none(ends: Ends, given: str | None) -> Record:
    wrong: Any = {
        "of a channel": grpc.local_channel_credentials(UDS),
        "of a server": grpc.local_server_credentials(UDS),
    }
    return attempt(_method(ends), b"", credentials=wrong.get(given, given), timeout=PATIENCE_S)


@each(given=("text", "of a call"))
def of_a_channel_are_none(ends: Ends, given: str) -> Record:
    wrong = {"of a call": _token("x")}.get(given, given)
    return attempt(lambda: ends.connect(ends.address(), credentials=wrong) and None)


@each(given=("text", None))
def of_a_port_are_none(ends: Ends, given: str | None) -> Record:
    return attempt(lambda: ends.server().add_secure_port(ends.address(), given) and None)


@each(way=WAYS)
def insecure_channel_takes_none(ends: Ends, way: Way) -> Record:
    served = ends.serve({"Method": method_handler(way.arity, answering(way.arity, lambda requests, context: b""))})
    insecure = EXPERIMENTAL.insecure_channel_credentials()
    records = {}
    for kind, channel in (
        ("insecure_channel", ends.connect(served.target)),
        ("insecure credentials", ends.connect(served.target, credentials=insecure)),
        (
            "composite",
            ends.connect(served.target, credentials=grpc.composite_channel_credentials(insecure, _token("x"))),
        ),
    ):
        method = getattr(channel, way.arity)(path())
        records[kind] = invoke(
            way.style, method, argument(way.arity), credentials=credentials(giving(TOKEN)), timeout=PATIENCE_S
        )
    return records


@each(secure=(False, True))
def handler_is_told_of_the_connection(ends: Ends, secure: bool) -> Record:
    def answer(requests: bytes, context: Any) -> bytes:
        identity = (context.peer_identities(), context.peer_identity_key())
        return repr((*identity, sorted(context.auth_context().items()))).encode()

    handlers = {"Method": method_handler("unary_unary", answer)}
    served = ends.serve(handlers, credentials=grpc.local_server_credentials(UDS) if secure else None)
    arguments: dict[str, Any] = {"credentials": grpc.local_channel_credentials(UDS)} if secure else {}
    return attempt(ends.connect(served.target, **arguments).unary_unary(path()), b"", timeout=PATIENCE_S)


@case
def are_as_long_as_metadata_may_be(ends: Ends) -> Record:
    given = credentials(giving((("long", "x" * 9000),)))
    method = _method(ends)
    seen = attempt(method, b"", metadata=(("first", "x" * 9000),), credentials=given, timeout=PATIENCE_S)
    return {"code": seen["raised"]["code"], "text": seen["raised"]["details"].partition(" (")[0]}


@case
def future_is_there_before_the_plugin_has_been_asked(ends: Ends) -> Record:
    gate = ends.gate()

    def behave(context: Any, callback: Any) -> None:
        gate.wait(PATIENCE_S)
        callback(TOKEN, None)

    call = _method(ends).future(b"", credentials=credentials(behave), timeout=PATIENCE_S)
    before = (call.done(), call.running())
    gate.set()
    return {"before": before, "result": attempt(call.result, PATIENCE_S), **ended(call)}
