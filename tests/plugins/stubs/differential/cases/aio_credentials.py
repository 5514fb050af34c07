"""Credentials of asyncio calls, channels and ports, over local channels."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import WAYS, answering, attempt, invoke, start
from ..ends import method_handler, path
from ..invoking import Way
from ..plugins import BEHAVIOURS, TARDY, TOKEN, credentials, giving
from ..records import PATIENCE_S, Diary, Record, entries
from ..records import attempt as tried
from ..registry import case, each

EXPERIMENTAL: Any = importlib.import_module("grpc.experimental")
UDS = grpc.LocalConnectionType.UDS
AUTHORITY = ("grpc.default_authority", "robot.lab:443")


async def _metadata(requests: bytes, context: Any) -> bytes:
    return repr(entries(context.invocation_metadata())).encode()


async def _method(ends: AioEnds, arity: str = "unary_unary", *of_channel: Any, answer: Any = _metadata) -> Any:
    handlers = {"Method": method_handler(arity, answering(arity, answer))}
    served = await ends.serve(handlers, credentials=grpc.local_server_credentials(UDS))
    of_all = grpc.local_channel_credentials(UDS)
    if of_channel:
        of_all = grpc.composite_channel_credentials(of_all, *of_channel)
    return getattr(ends.connect(served.target, [AUTHORITY], credentials=of_all), arity)(path())


@each(way=WAYS, what=BEHAVIOURS)
async def plugin_of_a_call(ends: AioEnds, way: Way, what: str) -> Record:
    method, given = await _method(ends, way.arity), credentials(BEHAVIOURS[what])
    return await invoke(way, method, metadata=(("first", "1"),), credentials=given, timeout=PATIENCE_S)


@each(way=WAYS, what=("gives", "fails"))
async def plugin_of_a_channel(ends: AioEnds, way: Way, what: str) -> Record:
    second = grpc.access_token_call_credentials("second")
    method = await _method(ends, way.arity, credentials(BEHAVIOURS[what]), second)
    return await invoke(way, method, timeout=PATIENCE_S)


@each(way=WAYS, what=TARDY)
async def is_late(ends: AioEnds, way: Way, what: str) -> Record:
    return await invoke(way, await _method(ends, way.arity), credentials=credentials(TARDY[what]), timeout=0.2)


@each(way=WAYS)
async def is_cancelled_while_the_plugin_is_asked(ends: AioEnds, way: Way) -> Record:
    diary = Diary()
    given = credentials(lambda context, callback: diary.note("asked"))
    call = start(way, await _method(ends, way.arity), credentials=given)
    asked = await asyncio.to_thread(diary.after, 1)
    cancel = call.cancel()
    return {"asked": asked, "cancel": cancel, "code": (await call.code()).name, "details": await call.details()}


@case
async def plugin_is_told_the_service_and_the_method(ends: AioEnds) -> Record:
    diary = Diary()

    def behave(context: Any, callback: Any) -> None:
        diary.note((isinstance(context, grpc.AuthMetadataContext), context.service_url, context.method_name))
        callback((), None)

    call = await attempt((await _method(ends))(b"", credentials=credentials(behave), timeout=PATIENCE_S))
    return {"call": call, "told": diary.after(1)}


@each(given=("text", "of a channel"))
async def of_a_call_are_none(ends: AioEnds, given: str) -> Record:
    wrong = {"of a channel": grpc.local_channel_credentials(UDS)}.get(given, given)
    method = await _method(ends)
    return tried(lambda: method(b"", credentials=wrong, timeout=PATIENCE_S))


@each(given=("text", None))
async def of_a_port_are_none(ends: AioEnds, given: str | None) -> Record:
    return tried(lambda: ends.server().add_secure_port(ends.address(), given) and None)


@each(way=WAYS)
async def insecure_credentials_take_none(ends: AioEnds, way: Way) -> Record:
    served = await ends.serve({"Method": method_handler(way.arity, answering(way.arity, _metadata))})
    insecure = EXPERIMENTAL.insecure_channel_credentials()
    method = getattr(ends.connect(served.target, credentials=insecure), way.arity)(path())
    return await invoke(way, method, credentials=credentials(giving(TOKEN)), timeout=PATIENCE_S)


@each(blocking=(False, True))
async def handler_is_told_of_the_connection(ends: AioEnds, blocking: bool) -> Record:
    def say(context: Any) -> bytes:
        identity = (context.peer_identities(), context.peer_identity_key())
        return repr((*identity, sorted(context.auth_context().items()))).encode()

    async def on_loop(request: bytes, context: Any) -> bytes:
        return say(context)

    def on_thread(request: bytes, context: Any) -> bytes:
        return say(context)

    handlers = {"Method": method_handler("unary_unary", on_thread if blocking else on_loop)}
    pool: dict[str, Any] = {"migration_thread_pool": ends.pool()} if blocking else {}
    served = await ends.serve(handlers, credentials=grpc.local_server_credentials(UDS), **pool)
    channel = ends.connect(served.target, credentials=grpc.local_channel_credentials(UDS))
    return await attempt(channel.unary_unary(path())(b"", timeout=PATIENCE_S))
