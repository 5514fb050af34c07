"""`LuckyEnv` of luckyrobots becomes `lucky_transport.LuckyEnv`: the same env, without luckyrobots and gRPC.

    from luckyrobots import LuckyEnv            from lucky_transport import LuckyEnv
    LuckyEnv(robot="go2", port=50051)           LuckyEnv(robot="go2")

`host` and `port` go, if they are the engine's. It is where the configuration or the given endpoint says. A file that
looks inside the env, or derives from it, is left to a person.
"""

from __future__ import annotations

import libcst as cst

from lucky_transport_migration.scan.fix.arguments import has_stars, keyword_argument, text_node, with_arguments
from lucky_transport_migration.scan.fix.draft import Draft
from lucky_transport_migration.scan.fix.imports import bound_name
from lucky_transport_migration.scan.fix.targets import Targets
from lucky_transport_migration.scan.known import luckyrobots_class

__all__ = ["rewrite_envs"]

_CLASS = "LuckyEnv"
_NEEDS = f"from lucky_transport import {_CLASS}"
_ADDRESS = {"host", "port"}
_BY_POSITION = 6  # parameters before `host`
_INSIDE = "_client"


def rewrite_envs(draft: Draft, endpoint: str | None, targets: Targets) -> None:
    """Have every LuckyEnv of a file taken from lucky_transport; at `endpoint`, or as configured when that is None."""
    calls = [call for call in draft.calls() if _is_env(draft, call.func)]
    statements = [node for node in draft.nodes(cst.ImportFrom) if isinstance(node, cst.ImportFrom)]
    imported = [(one, alias) for one in statements for alias in _env_aliases(draft, one)]
    if not calls and not imported:
        return
    for statement, _ in imported:
        if not isinstance(draft.parent(statement), cst.SimpleStatementLine):
            draft.refuse(statement, "its import shares a line with the block it is in: give it a line of its own")
            return
    if (obstacle := _obstacle(draft, calls, targets)) is not None:
        node, why = obstacle
        draft.refuse(node, why)
        return
    for statement, alias in imported:
        name = bound_name(alias)
        draft.move_import(statement, name, _NEEDS if name == _CLASS else f"{_NEEDS} as {name}")
    for node in draft.nodes(cst.Attribute):
        if isinstance(node, cst.Attribute) and _is_env(draft, node):
            draft.rename(node, _CLASS, needs=_NEEDS)
    for call in calls:
        draft.edit(call, lambda updated: _without_address(cst.ensure_type(updated, cst.Call), endpoint))


def _is_env(draft: Draft, node: cst.CSTNode) -> bool:
    names = draft.names(node)
    return bool(names) and all(luckyrobots_class(name) == _CLASS for name in names)


def _env_aliases(draft: Draft, statement: cst.ImportFrom) -> list[cst.ImportAlias]:
    if isinstance(statement.names, cst.ImportStar) or statement.module is None or statement.relative:
        return []
    module = cst.Module([]).code_for_node(statement.module)
    return [alias for alias in statement.names if luckyrobots_class(f"{module}.{alias.evaluated_name}") == _CLASS]


def _obstacle(draft: Draft, calls: list[cst.Call], targets: Targets) -> tuple[cst.CSTNode, str] | None:
    for call in calls:
        if has_stars(call) or sum(one.keyword is None for one in call.args) > _BY_POSITION:
            return call, "its host and port cannot be told from its other arguments: pass them by name"
        named = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
        if why := targets.why_not_at(draft, named.get("host"), named.get("port")):
            return call, why
    for node in draft.nodes(cst.ClassDef):
        if isinstance(node, cst.ClassDef) and any(_is_env(draft, base.value) for base in node.bases):
            return node, "a class derives from LuckyEnv: look at what it overrides, then import it from lucky_transport"
    for node in draft.nodes(cst.Attribute):
        if isinstance(node, cst.Attribute) and node.attr.value == _INSIDE:
            return node, f"the env's {_INSIDE} is used: lucky_transport.connect() has its calls, typed"
    return None


def _without_address(call: cst.Call, endpoint: str | None) -> cst.Call:
    kept = [one for one in call.args if one.keyword is None or one.keyword.value not in _ADDRESS]
    if endpoint is not None:
        kept.append(keyword_argument("endpoint", text_node(endpoint)))
        if len(kept) > 1 and isinstance(kept[-2].comma, cst.MaybeSentinel):
            kept[-2] = kept[-2].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call if len(kept) == len(call.args) and endpoint is None else with_arguments(call, kept)
