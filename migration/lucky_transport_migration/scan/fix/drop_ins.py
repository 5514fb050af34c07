"""Channels and servers of gRPC become drop-ins: the same class, over shared memory.

    grpc.insecure_channel("localhost:50051", options)   lucky_transport_stubs.channel(None, options)
    grpc.aio.insecure_channel(target)                   lucky_transport_stubs.aio_channel("shm://name")
    grpc.server(pool) ... .add_insecure_port(address)   lucky_transport_stubs.server(pool) ... .add_insecure_port("shm://name")

A target is replaced only where it is known to be the engine's (see targets.py), whatever endpoint is given. What has
credentials is left to a person.
"""

from __future__ import annotations

import libcst as cst

from lucky_transport_migration.scan.fix.arguments import argument, text_node
from lucky_transport_migration.scan.fix.draft import Draft
from lucky_transport_migration.scan.fix.targets import Targets
from lucky_transport_migration.scan.known import DROP_INS

__all__ = ["rewrite_channels", "rewrite_servers"]

_CHANNELS = {"grpc.insecure_channel": "channel", "grpc.aio.insecure_channel": "aio_channel"}
_SERVERS = {"grpc.server": "server", "grpc.aio.server": "aio_server"}
_SECURE = {"grpc.secure_channel", "grpc.aio.secure_channel"}
_NEEDS = f"import {DROP_INS}"


def rewrite_channels(draft: Draft, endpoint: str | None, targets: Targets) -> None:
    """Have channels made over shared memory: at `endpoint`, or where `LUCKY_ENDPOINT` says when that is None."""
    for call in draft.calls():
        names = draft.names(call.func)
        if len(names) == 1 and names[0] in _SECURE:
            draft.refuse(call, f"{names[0]} has credentials, of which shared memory has none: decide, then use channel")
        if len(names) == 1 and names[0] in _CHANNELS:
            _rewrite_channel(draft, call, _CHANNELS[names[0]], endpoint, targets)


def _rewrite_channel(draft: Draft, call: cst.Call, drop_in: str, endpoint: str | None, targets: Targets) -> None:
    target = argument(call, 0, "target")
    if target is None:
        draft.refuse(call, "the target is not to be seen in this call")
        return
    if why := targets.why_not(draft, target.value):
        draft.refuse(call, why)
        return
    draft.rename(call.func, f"{DROP_INS}.{drop_in}", needs=_NEEDS)
    index = call.args.index(target)
    draft.edit(call, lambda updated: _with_endpoint(cst.ensure_type(updated, cst.Call), index, endpoint))


def _with_endpoint(call: cst.Call, index: int, endpoint: str | None) -> cst.Call:
    """Return a call with the endpoint where the target was; without one, the configured endpoint counts."""
    old = call.args[index]
    keyword = None if old.keyword is None else cst.Name("endpoint")
    value = cst.Name("None") if endpoint is None else text_node(endpoint)
    rest = call.args[index + 1 :]
    if endpoint is None and (old.keyword is not None or all(one.keyword is not None for one in rest)):
        return call.with_changes(args=[*call.args[:index], *rest])
    return call.with_changes(args=[*call.args[:index], old.with_changes(keyword=keyword, value=value), *rest])


def rewrite_servers(draft: Draft, endpoint: str | None, targets: Targets) -> None:
    """Have the one server of a file serve at `endpoint`, which has to be in shared memory."""
    servers = [call for call in draft.calls() if len(names := draft.names(call.func)) == 1 and names[0] in _SERVERS]
    if not servers:
        return
    ports = [call for call in draft.calls() if isinstance(call.func, cst.Attribute) and "_port" in call.func.attr.value]
    ports = [call for call in ports if cst.ensure_type(call.func, cst.Attribute).attr.value.startswith("add_")]
    why = _why_not(servers, ports, endpoint) or targets.why_not(draft, ports[0].args[0].value)
    if why:
        for call in servers:
            draft.refuse(call, why)
        return
    name = draft.names(servers[0].func)[0]
    draft.rename(servers[0].func, f"{DROP_INS}.{_SERVERS[name]}", needs=_NEEDS)
    address = text_node(endpoint or "")
    draft.edit(ports[0].args[0].value, lambda _: address)


def _why_not(servers: list[cst.Call], ports: list[cst.Call], endpoint: str | None) -> str:
    """Return why a file's servers are no matter of a rule, "" when there is one with one port."""
    if endpoint is None or not endpoint.startswith("shm://"):
        return "where it is to serve is not known: say so with --endpoint shm://NAME"
    if len(servers) > 1 or len(ports) != 1:
        return f"this file makes {len(servers)} servers and binds {len(ports)} ports; a rule knows one of each"
    is_insecure = cst.ensure_type(ports[0].func, cst.Attribute).attr.value == "add_insecure_port"
    if not is_insecure or len(ports[0].args) != 1 or ports[0].args[0].star:
        return "its port has credentials, of which shared memory has none"
    return ""
