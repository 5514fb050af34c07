"""Channels and servers of gRPC become drop-ins: the same classes, over shared memory.

    grpc.insecure_channel("localhost:50051", options)   lucky_transport_stubs.channel(None, options)
    grpc.aio.insecure_channel(target)                   lucky_transport_stubs.aio_channel("shm://name")
    server = grpc.server(pool)                          server = lucky_transport_stubs.server(pool)
    server.add_insecure_port("[::]:50051")              server.add_insecure_port("shm://name")

A target is replaced only where it is known to be the engine's (see targets.py). What has credentials is left to a
person. A server is rewritten where one with one port is all that a file makes, once, in one process: a name in shared
memory is served once, so what would bind it again, and what needs the number of a port, stays on gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import libcst as cst

from lucky_transport_migration.scan.codemod import EngineCodemod, has_stars, text_node
from lucky_transport_migration.scan.known import DROP_INS
from lucky_transport_migration.scan.results import Obstacle
from lucky_transport_migration.scan.targets import Targets

_CHANNELS = {"grpc.insecure_channel": "channel", "grpc.aio.insecure_channel": "aio_channel"}
_SECURE = {"grpc.secure_channel", "grpc.aio.secure_channel"}
_NEEDS = f"import {DROP_INS}"

_SERVERS = {"grpc.server": "server", "grpc.aio.server": "aio_server"}
_BINDS_A_PORT = re.compile(r"add_\w*_port\w*")
_LOOPS = (cst.For, cst.While, cst.CompFor, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_RUNNERS = {"threading.Thread", "multiprocessing.Process"}
_SHARED = "grpc.so_reuseport"


def rewrite_drop_ins(codemod: EngineCodemod, targets: Targets) -> None:
    """Have servers and channels made over shared memory, where their addresses stand for an endpoint there.

    In a file whose own server stays on gRPC, perhaps at the engine's port, channels stay there too.
    """
    if _rewrite_servers(codemod, targets):
        for node, _ in chain(codemod.calls_of(*_CHANNELS), codemod.values_of({*_SECURE, *_CHANNELS}.__contains__)):
            target = _target(node) if isinstance(node, cst.Call) else None
            why = "" if target is None else targets.of_channel(codemod, target.value).why_not
            codemod.refuse(node, why or "a server of this file stays on gRPC, and may be what this channel leads to")
    else:
        _rewrite_channels(codemod, targets)
    for call, name in codemod.calls_of(*_SECURE):
        codemod.refuse(call, f"{name} has credentials: a drop-in channel takes `credentials`, local and of TLS")


def _rewrite_channels(codemod: EngineCodemod, targets: Targets) -> None:
    for call, name in codemod.calls_of(*_CHANNELS):
        _rewrite_channel(codemod, call, _CHANNELS[name], targets)
    for value, name in codemod.values_of({*_SECURE, *_CHANNELS}.__contains__):
        codemod.refuse(value, f"{name} is passed on as a value, so its targets are not to be seen here")


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
    keyword = None if old.keyword is None else cst.Name("endpoint")
    new = old.with_changes(keyword=keyword, value=cst.Name("None") if endpoint is None else text_node(endpoint))
    return call.with_changes(args=[*call.args[:index], new, *rest])


# -- servers


def _rewrite_servers(codemod: EngineCodemod, targets: Targets) -> bool:
    """Have the one server of a file serve in shared memory.

    Returns True when a server stays on gRPC at a port that is the engine's, or may be.
    """
    for value, name in codemod.values_of(_SERVERS.__contains__):
        codemod.refuse(value, f"{name} is passed on as a value, so its servers are not to be seen here")
    found = dict(codemod.calls_of(*_SERVERS))
    if not found:
        return False
    server, ports = (
        next(iter(found)),
        [call for call in codemod.nodes(cst.Call) if _BINDS_A_PORT.fullmatch(_name(call))],
    )
    obstacles = list(_obstacles(codemod, list(found), ports, targets))
    for obstacle in obstacles:
        codemod.refuse(obstacle.node, obstacle.why)
    if obstacles:
        return any(not call.args or targets.may_be_the_engines(codemod, call.args[0].value) for call in ports)
    address = ports[0].args[0].value
    new = text_node(targets.of_server(codemod, address).endpoint or "")
    codemod.rename(server.func, f"{DROP_INS}.{_SERVERS[found[server]]}", needs=_NEEDS)
    codemod.edit(address, lambda _: new)
    return False


def _name(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _obstacles(
    codemod: EngineCodemod, servers: list[cst.Call], ports: list[cst.Call], targets: Targets
) -> Iterator[Obstacle]:
    """Yield why a file's servers are no matter of a rule, each with its place; nothing for one with one port."""
    if len(servers) > 1 or len(ports) != 1:
        why = f"this file makes {len(servers)} servers and binds {len(ports)} ports; a rule knows one of each"
        yield from (Obstacle(call, why) for call in servers)
        return
    port = ports[0]
    if _name(port) != "add_insecure_port" or len(port.args) != 1 or port.args[0].star:
        yield Obstacle(port, "its port has credentials: add_secure_port of a drop-in server takes them")
        return
    found = targets.of_server(codemod, port.args[0].value)
    if found.why_not:
        yield Obstacle(port, found.why_not)
        return
    if not (found.endpoint or "").startswith("shm://"):
        yield Obstacle(servers[0], "where it is to serve is not known: say so with --endpoint shm://NAME")
    if _is_used(codemod, port):
        yield Obstacle(port, "the number of its port is used afterwards, and shared memory has none")
    if any(_SHARED in codemod.code(one) for one in codemod.nodes(cst.SimpleString)):
        yield Obstacle(
            port, f"{_SHARED}: several processes may share its port, and a name in shared memory is one's own"
        )
    yield from _repeated(codemod, port, set())


def _is_used(codemod: EngineCodemod, call: cst.Call) -> bool:
    """True unless the result of a call is dropped, or bound to a name that is not read."""
    match codemod.parent(call):
        case cst.Expr():
            return False
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            return any(assignment.references for assignment in codemod.bindings_of(name))
        case _:
            return True


def _repeated(codemod: EngineCodemod, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Obstacle]:
    """Yield what may run a node more than once: loops around it, and around the calls of the functions it is in."""
    function: cst.CSTNode | None = codemod.parent(node)
    while function is not None and not isinstance(function, cst.FunctionDef):
        if isinstance(function, _LOOPS):
            yield Obstacle(node, "it is in a loop, and a name in shared memory is served once")
            return
        function = codemod.parent(function)
    if not isinstance(function, cst.FunctionDef) or function in seen:
        return
    seen.add(function)
    passed = 0
    for use in _uses(codemod, function):
        runner = codemod.parent(use)
        if isinstance(runner, cst.Call) and runner.func is use:
            yield from _repeated(codemod, runner, seen)
            continue
        passed += 1
        call = codemod.parent(runner) if isinstance(runner, cst.Arg) else None
        if passed > 1 or not isinstance(call, cst.Call) or not _RUNNERS.issuperset(codemod.names(call.func) or [""]):
            why = (
                f"{function.name.value} is passed on as a value, perhaps to several processes: they cannot share a name"
            )
            yield Obstacle(use, why)
        else:
            yield from _repeated(codemod, call, seen)


def _uses(codemod: EngineCodemod, function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """Yield every expression that goes by the name of a function; of a method, whatever object it is asked of."""
    name = function.name.value
    for node in codemod.nodes(cst.Attribute):
        if node.attr.value == name:
            yield node
    for node in codemod.nodes(cst.Name):
        parent = codemod.parent(node)
        is_part = isinstance(parent, cst.Attribute | cst.FunctionDef | cst.ImportAlias | cst.AsName | cst.Param)
        is_keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        if node.value == name and not is_part and not is_keyword:
            yield node
