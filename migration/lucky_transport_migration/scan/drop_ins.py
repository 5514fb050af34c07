"""Channels and servers of gRPC become drop-ins: the same class, over shared memory.

    grpc.insecure_channel("localhost:50051", options)   lucky_transport_stubs.channel(None, options)
    grpc.aio.insecure_channel(target)                   lucky_transport_stubs.aio_channel("shm://name")
    grpc.server(pool) ... .add_insecure_port(address)   lucky_transport_stubs.server(pool) ... .add_insecure_port("shm://name")

A target is replaced only where it is known to be the engine's (see targets.py), whatever endpoint is given. What has
credentials is left to a person.
"""

from __future__ import annotations

import re

import libcst as cst

from lucky_transport_migration.scan.codemod import EngineCodemod, has_stars, text_node
from lucky_transport_migration.scan.known import DROP_INS
from lucky_transport_migration.scan.targets import Targets

__all__ = ["rewrite_channels", "rewrite_servers"]

_CHANNELS = {"grpc.insecure_channel": "channel", "grpc.aio.insecure_channel": "aio_channel"}
_SERVERS = {"grpc.server": "server", "grpc.aio.server": "aio_server"}
_SECURE = {"grpc.secure_channel", "grpc.aio.secure_channel"}
_BINDS_A_PORT = re.compile(r"add_\w*_port\w*")
_NEEDS = f"import {DROP_INS}"


def rewrite_channels(codemod: EngineCodemod, endpoint: str | None, targets: Targets) -> None:
    """Have channels made over shared memory: at `endpoint`, or where `LUCKY_ENDPOINT` says when that is None."""
    for call, name in codemod.calls_of(*_SECURE, *_CHANNELS):
        if name in _SECURE:
            codemod.refuse(call, f"{name} has credentials, of which shared memory has none: decide, then use channel")
        else:
            _rewrite_channel(codemod, call, _CHANNELS[name], endpoint, targets)
    for value, name in codemod.values_of({*_SECURE, *_CHANNELS}.__contains__):
        call = _partial(codemod, value)
        if call is None or name in _SECURE:
            codemod.refuse(value, f"{name} is passed on as a value, so its targets are not to be seen here")
        else:
            _rewrite_partial(codemod, call, _CHANNELS[name], endpoint, targets)
    for call, name in codemod.named_by_text(*_SECURE, *_CHANNELS, *_SERVERS):
        codemod.refuse(call, f"{name} is named by a text: no rule follows that; write {name}")


def _partial(codemod: EngineCodemod, value: cst.BaseExpression) -> cst.Call | None:
    """Return the call of `functools.partial` that a function is the first argument of, None for any other use."""
    argument = codemod.parent(value)
    call = None if argument is None else codemod.parent(argument)
    if not isinstance(call, cst.Call) or codemod.names(call.func) != ["functools.partial"]:
        return None
    first = call.args[0]
    return call if first is argument and first.keyword is None and not first.star else None


def _rewrite_partial(
    codemod: EngineCodemod, call: cst.Call, drop_in: str, endpoint: str | None, targets: Targets
) -> None:
    """Have a partial made of a drop-in, if it holds the target: what is passed to it later stays what it is."""
    target = _target(call.with_changes(args=call.args[1:]))
    if target is None:
        codemod.refuse(call, "its target is given where the partial is called, and not to be seen here")
    elif why := targets.why_not(codemod, target.value):
        codemod.refuse(call, why)
    else:
        codemod.rename(call.args[0].value, f"{DROP_INS}.{drop_in}", needs=_NEEDS)
        new = _endpoint_argument(target, endpoint)
        codemod.edit(target, lambda updated: updated.with_changes(keyword=new.keyword, value=new.value))


def _rewrite_channel(
    codemod: EngineCodemod, call: cst.Call, drop_in: str, endpoint: str | None, targets: Targets
) -> None:
    target = _target(call)
    if target is None:
        codemod.refuse(call, "the target is not to be seen in this call")
        return
    if why := targets.why_not(codemod, target.value):
        codemod.refuse(call, why)
        return
    codemod.rename(call.func, f"{DROP_INS}.{drop_in}", needs=_NEEDS)
    index = call.args.index(target)
    codemod.edit(call, lambda updated: _with_endpoint(updated, index, endpoint))


def _target(call: cst.Call) -> cst.Arg | None:
    """Return the argument that is the target; None when it is not to be seen."""
    if call.args and not call.args[0].star and call.args[0].keyword is None:
        return call.args[0]
    named = [one for one in call.args if one.keyword is not None and one.keyword.value == "target"]
    return named[0] if named and not has_stars(call) else None


def _with_endpoint(call: cst.Call, index: int, endpoint: str | None) -> cst.Call:
    """Return a call with the endpoint where the target was; without one, the configured endpoint counts."""
    old = call.args[index]
    rest = call.args[index + 1 :]
    if endpoint is None and (old.keyword is not None or all(one.keyword is not None for one in rest)):
        return call.with_changes(args=[*call.args[:index], *rest])
    return call.with_changes(args=[*call.args[:index], _endpoint_argument(old, endpoint), *rest])


def _endpoint_argument(target: cst.Arg, endpoint: str | None) -> cst.Arg:
    keyword = None if target.keyword is None else cst.Name("endpoint")
    return target.with_changes(keyword=keyword, value=cst.Name("None") if endpoint is None else text_node(endpoint))


def rewrite_servers(codemod: EngineCodemod, endpoint: str | None, targets: Targets) -> None:
    """Have the one server of a file serve at `endpoint`, which has to be in shared memory."""
    for value, name in codemod.values_of(_SERVERS.__contains__):
        codemod.refuse(value, f"{name} is passed on as a value, so its servers are not to be seen here")
    found = dict(codemod.calls_of(*_SERVERS))
    if not found:
        return
    servers = list(found)
    ports = [call for call in codemod.nodes(cst.Call) if _BINDS_A_PORT.fullmatch(_method(call))]
    why = _why_not(servers, ports, endpoint) or targets.why_not(codemod, ports[0].args[0].value)
    if why:
        for call in servers:
            codemod.refuse(call, why)
        return
    codemod.rename(servers[0].func, f"{DROP_INS}.{_SERVERS[found[servers[0]]]}", needs=_NEEDS)
    address = text_node(endpoint or "")
    codemod.edit(ports[0].args[0].value, lambda _: address)


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _why_not(servers: list[cst.Call], ports: list[cst.Call], endpoint: str | None) -> str:
    """Return why a file's servers are no matter of a rule, "" when there is one with one port."""
    if endpoint is None or not endpoint.startswith("shm://"):
        return "where it is to serve is not known: say so with --endpoint shm://NAME"
    if len(servers) > 1 or len(ports) != 1:
        return f"this file makes {len(servers)} servers and binds {len(ports)} ports; a rule knows one of each"
    if _method(ports[0]) != "add_insecure_port" or len(ports[0].args) != 1 or ports[0].args[0].star:
        return "its port has credentials, of which shared memory has none"
    return ""
