"""Channels of gRPC become drop-ins: the same class, over shared memory; see servers.py for servers.

    grpc.insecure_channel("localhost:50051", options)   lucky_transport_stubs.channel(None, options)
    grpc.aio.insecure_channel(target)                   lucky_transport_stubs.aio_channel("shm://name")

A target is replaced only where it is known to be the engine's (see targets.py). What has credentials is left to a
person.
"""

from __future__ import annotations

from itertools import chain

import libcst as cst

from lucky_transport_migration.scan.codemod import EngineCodemod, has_stars, text_node
from lucky_transport_migration.scan.known import DROP_INS
from lucky_transport_migration.scan.servers import SERVERS, rewrite_servers
from lucky_transport_migration.scan.targets import Targets

_CHANNELS = {"grpc.insecure_channel": "channel", "grpc.aio.insecure_channel": "aio_channel"}
_SECURE = {"grpc.secure_channel", "grpc.aio.secure_channel"}
_NEEDS = f"import {DROP_INS}"


def rewrite_drop_ins(codemod: EngineCodemod, targets: Targets) -> None:
    """Have servers and channels made over shared memory, where their addresses stand for an endpoint there.

    In a file whose own server stays on gRPC, perhaps at the engine's port, channels stay there too.
    """
    if rewrite_servers(codemod, targets):
        for node, _ in chain(codemod.calls_of(*_CHANNELS), codemod.values_of({*_SECURE, *_CHANNELS}.__contains__)):
            target = _target(node) if isinstance(node, cst.Call) else None
            why = "" if target is None else targets.of_channel(codemod, target.value).why_not
            codemod.refuse(node, why or "a server of this file stays on gRPC, and may be what this channel leads to")
    else:
        _rewrite_channels(codemod, targets)
    for call, name in codemod.calls_of(*_SECURE):
        codemod.refuse(call, f"{name} has credentials, of which shared memory has none: decide, then use channel")
    for call, name in codemod.named_by_text(*_SECURE, *_CHANNELS, *SERVERS):
        codemod.refuse(call, f"{name} is named by a text: no rule follows that; write {name}")


def _rewrite_channels(codemod: EngineCodemod, targets: Targets) -> None:
    for call, name in codemod.calls_of(*_CHANNELS):
        _rewrite_channel(codemod, call, _CHANNELS[name], targets)
    for value, name in codemod.values_of({*_SECURE, *_CHANNELS}.__contains__):
        call = _partial(codemod, value)
        if call is None or name in _SECURE:
            codemod.refuse(value, f"{name} is passed on as a value, so its targets are not to be seen here")
        else:
            _rewrite_partial(codemod, call, _CHANNELS[name], targets)


def _partial(codemod: EngineCodemod, value: cst.BaseExpression) -> cst.Call | None:
    """Return the call of `functools.partial` that a function is the first argument of, None for any other use."""
    argument = codemod.parent(value)
    call = None if argument is None else codemod.parent(argument)
    if not isinstance(call, cst.Call) or codemod.names(call.func) != ["functools.partial"]:
        return None
    first = call.args[0]
    return call if first is argument and first.keyword is None and not first.star else None


def _rewrite_partial(codemod: EngineCodemod, call: cst.Call, drop_in: str, targets: Targets) -> None:
    """Have a partial made of a drop-in, if it holds the target: what is passed to it later stays what it is."""
    target = _target(call.with_changes(args=call.args[1:]))
    if target is None:
        codemod.refuse(call, "its target is given where the partial is called, and not to be seen here")
        return
    found = targets.of_channel(codemod, target.value)
    if found.why_not:
        codemod.refuse(call, found.why_not)
    else:
        codemod.rename(call.args[0].value, f"{DROP_INS}.{drop_in}", needs=_NEEDS)
        new = _endpoint_argument(target, found.endpoint)
        codemod.edit(target, lambda updated: updated.with_changes(keyword=new.keyword, value=new.value))


def _rewrite_channel(codemod: EngineCodemod, call: cst.Call, drop_in: str, targets: Targets) -> None:
    target = _target(call)
    if target is None:
        codemod.refuse(call, "the target is not to be seen in this call")
        return
    found = targets.of_channel(codemod, target.value)
    if found.why_not:
        codemod.refuse(call, found.why_not)
        return
    codemod.rename(call.func, f"{DROP_INS}.{drop_in}", needs=_NEEDS)
    index = call.args.index(target)
    codemod.edit(call, lambda updated: _with_endpoint(updated, index, found.endpoint))


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
