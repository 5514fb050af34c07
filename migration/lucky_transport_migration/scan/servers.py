"""Servers of gRPC become drop-ins, where one server with one port is all that a file makes, once, in one process.

    server = grpc.server(pool)                 server = lucky_transport_stubs.server(pool)
    server.add_insecure_port("[::]:50051")     server.add_insecure_port("shm://name")

A name in shared memory is served once: what would bind it again, and what needs the number of a port, stays on gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from lucky_transport_migration.scan.codemod import EngineCodemod, text_node
from lucky_transport_migration.scan.known import DROP_INS
from lucky_transport_migration.scan.results import Obstacle
from lucky_transport_migration.scan.targets import Targets

SERVERS = {"grpc.server": "server", "grpc.aio.server": "aio_server"}
_BINDS_A_PORT = re.compile(r"add_\w*_port\w*")
_LOOPS = (cst.For, cst.While, cst.CompFor, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_RUNNERS = {"threading.Thread", "multiprocessing.Process"}
_SHARED = "grpc.so_reuseport"


def rewrite_servers(codemod: EngineCodemod, targets: Targets) -> bool:
    """Have the one server of a file serve in shared memory.

    Returns True when a server stays on gRPC at a port that is the engine's, or may be.
    """
    for value, name in codemod.values_of(SERVERS.__contains__):
        codemod.refuse(value, f"{name} is passed on as a value, so its servers are not to be seen here")
    found = dict(codemod.calls_of(*SERVERS))
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
        return any(_may_be_the_engines(codemod, call, targets) for call in ports)
    address = ports[0].args[0].value
    new = text_node(targets.of_server(codemod, address).endpoint or "")
    codemod.rename(server.func, f"{DROP_INS}.{SERVERS[found[server]]}", needs=f"import {DROP_INS}")
    codemod.edit(address, lambda _: new)
    return False


def _name(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _may_be_the_engines(codemod: EngineCodemod, port: cst.Call, targets: Targets) -> bool:
    return not port.args or targets.may_be_the_engines(codemod, port.args[0].value)


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
        yield Obstacle(port, "its port has credentials, of which shared memory has none")
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
