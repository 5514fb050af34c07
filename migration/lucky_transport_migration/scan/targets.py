"""Which targets of gRPC are the engine's: port 50051 of this host, those of a configured map, and those that the user
names.

A target counts only when its text is known, because a rewrite of another service's channel would break a program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst.metadata import Assignment

from lucky_transport.registry import load
from lucky_transport_migration.scan.codemod import EngineCodemod
from lucky_transport_migration.scan.known import PORT

_PAIR = re.compile(r"(?P<pattern>.+?)=(?P<endpoint>[a-z][a-z0-9+]*://.*)", re.DOTALL)
_GRPC_TARGETS = "lucky_transport_stubs.run.targets"

#: What an expression is known to be.
Constant = str | int


@dataclass(frozen=True, slots=True)
class Found:
    """Where a target of the engine's is found, None for where the configuration says when the program runs.

    why_not: why it is left alone; "" for a target of the engine's.
    """

    endpoint: str | None = None
    why_not: str = ""


class Targets:
    """The engine's targets, and the endpoints that take their places.

    endpoint: that of port 50051 of this host and of what is named without one. named: by the user, as "host:port",
    "unix:/path", a pattern with `*`, or as the program spells it ("options.address"), perhaps with "=ENDPOINT".
    mapped, served: pairs of the settings `grpc_map` and `grpc_serve`; ports are looked for in both.
    """

    def __init__(
        self, endpoint: str | None, named: Sequence[str] = (), mapped: Sequence[str] = (), served: Sequence[str] = ()
    ) -> None:
        self._endpoint = endpoint
        pairs = dict(_pair(one) for one in named)
        self._spelt = {pattern: own or endpoint for pattern, own in pairs.items()}
        places = [(pattern, own) for pattern, own in pairs.items() if "=" not in pattern]  # others are expressions
        known = [f"localhost:{PORT}", *(pattern for pattern, own in places if not own)]
        texts = [f"{pattern}={own}" for pattern, own in places if own]
        self._channels = _map_of([*texts, *mapped])
        self._servers = _map_of([*texts, *served, *mapped])
        self._known = _map_of([f"{pattern}=shm://known" for pattern in known])

    def of_channel(self, codemod: EngineCodemod, target: cst.BaseExpression) -> Found:
        """Return where the target of a channel is found."""
        return self._find(codemod, target, self._channels)

    def of_server(self, codemod: EngineCodemod, address: cst.BaseExpression) -> Found:
        """Return where the address that a server binds is found."""
        return self._find(codemod, address, self._servers)

    def may_be_the_engines(self, codemod: EngineCodemod, address: cst.BaseExpression) -> bool:
        """Return False for an address that is known, and not the engine's."""
        return not isinstance(constant(codemod, address), str) or not self.of_server(codemod, address).why_not

    def at(self, codemod: EngineCodemod, host: cst.BaseExpression | None, port: cst.BaseExpression | None) -> Found:
        """Return the same of a host and a port; None for one that is not given, which is this host, port 50051."""
        given = ((host, "localhost"), (port, PORT))
        known = [default if node is None else constant(codemod, node) for node, default in given]
        if None in known:
            spelt = [
                one if one is not None or node is None else codemod.code(node)
                for one, node in zip(known, (host, port), strict=True)
            ]
            return self._find_spelt("its host and port are not constants", f"{spelt[0]}:{spelt[1]}")
        name = f"[{known[0]}]" if ":" in str(known[0]) and not str(known[0]).startswith("[") else known[0]
        return self._find_text(f"{name}:{known[1]}", self._channels)

    def _find(self, codemod: EngineCodemod, target: cst.BaseExpression, endpoint_of: Callable[[str], str]) -> Found:
        text = constant(codemod, target)
        if not isinstance(text, str):
            return self._find_spelt("its target is not a constant", codemod.code(target))
        return self._find_text(text, endpoint_of)

    def _find_spelt(self, why: str, spelt: str) -> Found:
        """Return the same of what is not known: the user may name it as the program spells it."""
        if spelt in self._spelt:
            return Found(self._spelt[spelt])
        remedy = f"if it is, say so with --target {shlex.quote(spelt)}"
        return Found(why_not=f"{why}, so it is not known to be the engine's; {remedy}")

    def _find_text(self, text: str, endpoint_of: Callable[[str], str]) -> Found:
        if endpoint := endpoint_of(text):
            return Found(endpoint)
        if self._known(text):
            return Found(self._endpoint)
        return Found(
            why_not=f"{text} is not known to be the engine: only port {PORT} of this host is, and what grpc_map or "
            f"--target names; if it is, say so with --target {shlex.quote(text)}"
        )


def _pair(named: str) -> tuple[str, str]:
    """Return what a user names, and the endpoint of its own, "" without one."""
    match = _PAIR.fullmatch(named)
    return (named, "") if match is None else (match["pattern"], match["endpoint"])


def check_targets(named: Sequence[str]) -> None:
    """Return when all of these can be read. Raises ConfigError for one that leads to no endpoint in shared memory."""
    _map_of([f"*={endpoint}" for _, endpoint in map(_pair, named) if endpoint])


def _map_of(pairs: Sequence[str]) -> Callable[[str], str]:
    """Return what tells the endpoint of a target, "" for one that no pair fits: the map of `lucky-transport run`."""
    found: Any = load(f"{_GRPC_TARGETS}:TargetMap", owner="command 'scan --fix'")(pairs)
    return found.endpoint_of


def constant(codemod: EngineCodemod, node: cst.BaseExpression) -> Constant | None:
    """Return the text or number that a literal is, or a name that is assigned one once; None for all else."""
    value = _value_of(codemod, node) if isinstance(node, cst.Name) else node
    match value:
        case cst.Integer():
            return value.evaluated_value
        case cst.SimpleString() | cst.ConcatenatedString(left=cst.SimpleString(), right=cst.SimpleString()):
            text = value.evaluated_value
            return text if isinstance(text, str) else None
        case _:
            return None


def _value_of(codemod: EngineCodemod, name: cst.Name) -> cst.BaseExpression | None:
    """Return what a name is assigned, if that is once, by a plain assignment."""
    found = codemod.bindings_of(name)
    if len(found) != 1 or not isinstance(found[0], Assignment):
        return None
    match codemod.parent(found[0].node), codemod.parent(codemod.parent(found[0].node) or found[0].node):
        case cst.AssignTarget(), cst.Assign() as statement if len(statement.targets) == 1:
            return statement.value
        case cst.AnnAssign() as statement, _ if statement.target is found[0].node:
            return statement.value
        case _:
            return None
