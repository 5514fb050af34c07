"""`LuckyEngineClient` of luckyrobots becomes a typed client, where every use has a typed call with the same answer.

    client = LuckyEngineClient(port=50051)      client = lucky_transport.connect()
    client.connect()
    client.reset_agent("agent_0")               client.agent.reset("agent_0")

All uses of a client are rewritten or none; `step` answers differently there and is left to a person. Uses are seen
within the file; a client that other files import by its name is not for this rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from lucky_transport_migration.scan.fix.arguments import has_stars, keyword_argument, text_node, with_arguments
from lucky_transport_migration.scan.fix.draft import Draft
from lucky_transport_migration.scan.fix.targets import Targets
from lucky_transport_migration.scan.known import luckyrobots_class

__all__ = ["rewrite_clients"]

_CONNECT = "lucky_transport.connect"
_NEEDS = "import lucky_transport"
_TIMEOUT = {"timeout": "timeout_s"}

#: Parameters of LuckyEngineClient and what becomes of them; "" for what is gRPC's address.
_PARAMETERS = {"host": "", "port": "", "timeout": "command_timeout_s"}
_DROPPED = {"connect", "wait_for_server"}


@dataclass(frozen=True, slots=True)
class _Typed:
    """A typed call: parameters by their old name and order -> new name; defaults that the typed call does not have."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=lambda: dict(_TIMEOUT))
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])


_TYPED = {
    "close": _Typed("close", {}),
    "get_agent_schema": _Typed("agent.get_schema", {"agent_name": "agent_name"} | _TIMEOUT),
    "reset_agent": _Typed("agent.reset", {"agent_name": "agent_name", "randomization_cfg": "", **_TIMEOUT}),
    "get_joint_state": _Typed("mujoco.get_joint_state", {"robot_name": "robot_name"} | _TIMEOUT),
    "get_mujoco_info": _Typed("mujoco.get_info", {"robot_name": "robot_name"} | _TIMEOUT),
    "get_model_info": _Typed("mujoco_scene.get_model_info"),
    "reset_scene": _Typed("mujoco_scene.reset", {"preserve_time": "preserve_time"} | _TIMEOUT),
    "set_simulation_mode": _Typed("scene.set_simulation_mode", {"mode": "mode"} | _TIMEOUT, {"mode": '"fast"'}),
    "enter_play_mode": _Typed("scene.enter_play_mode"),
    "exit_play_mode": _Typed("scene.exit_play_mode"),
    "stream_telemetry": _Typed("telemetry.stream", {"target_fps": "target_fps"}, {"target_fps": "30"}),
}


@dataclass
class _Use:
    """One use of a client: the method, its call, the statement that is nothing but this call."""

    method: str
    call: cst.Call
    statement: cst.SimpleStatementLine | None


def rewrite_clients(draft: Draft, endpoint: str | None, targets: Targets) -> None:
    """Have every client that is only used for calls with a typed twin made by `lucky_transport.connect`."""
    for call in draft.calls():
        names = draft.names(call.func)
        if names and all(luckyrobots_class(name) == "LuckyEngineClient" for name in names):
            _rewrite_client(draft, call, endpoint, targets)


def _rewrite_client(draft: Draft, call: cst.Call, endpoint: str | None, targets: Targets) -> None:
    variable = _variable(draft, call)
    made = _arguments(call, {name: name for name in _PARAMETERS})
    if variable is None or made is None:
        draft.refuse(call, "only a client that a plain name holds, made with host, port and timeout, can be followed")
        return
    if why := targets.why_not_at(draft, made.get("host"), made.get("port")):
        draft.refuse(call, why)
        return
    uses = [_use(draft, node) for node in _uses_of(draft, variable)]
    unknown = [use for use in uses if not isinstance(use, _Use)]
    for node in unknown:
        draft.refuse(node, "a use of the client whose typed twin answers otherwise, or is not known to a rule")
    if unknown:
        return
    given = {_PARAMETERS[name]: value for name, value in made.items() if _PARAMETERS[name]}
    arguments = [cst.Arg(text_node(endpoint))] if endpoint is not None else []
    arguments += [keyword_argument(name, value) for name, value in given.items()]
    draft.rename(call.func, _CONNECT, needs=_NEEDS)
    draft.edit(call, lambda updated: with_arguments(cst.ensure_type(updated, cst.Call), arguments))
    for use in uses:
        if isinstance(use, _Use):
            _rewrite_use(draft, use)


def _variable(draft: Draft, call: cst.Call) -> cst.Name | None:
    """Return the name that is assigned the client, once in its scope; None for anything else."""
    statement = draft.parent(call)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    return target if isinstance(target, cst.Name) and len(draft.assignments_of(target)) == 1 else None


def _uses_of(draft: Draft, variable: cst.Name) -> list[cst.CSTNode]:
    (assignment,) = draft.assignments_of(variable)
    return [access.node for access in assignment.references]


def _use(draft: Draft, node: cst.CSTNode) -> _Use | cst.CSTNode:
    """Return how a client is used at `node`; the node itself where no rule knows the use."""
    attribute = node if isinstance(node, cst.Attribute) else draft.parent(node)
    if not isinstance(attribute, cst.Attribute) or not isinstance(attribute.value, cst.Name):
        return node
    call = draft.parent(attribute)
    if not isinstance(call, cst.Call) or call.func is not attribute:
        return node
    expression = draft.parent(call)
    line = draft.parent(expression) if isinstance(expression, cst.Expr) else None
    statement = line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    use = _Use(attribute.attr.value, call, statement)
    return use if _is_known(use) else node


def _is_known(use: _Use) -> bool:
    if use.method in _DROPPED:
        return use.statement is not None
    typed = _TYPED.get(use.method)
    given = None if typed is None else _arguments(use.call, typed.parameters)
    return given is not None and "" not in given


def _arguments(call: cst.Call, parameters: Mapping[str, str]) -> dict[str, cst.BaseExpression] | None:
    """Return new name -> value of a call's arguments, None when one is not among `parameters`."""
    if has_stars(call):
        return None
    order = list(parameters)
    given: dict[str, cst.BaseExpression] = {}
    for index, one in enumerate(call.args):
        by_position = order[index] if index < len(order) else ""
        name = by_position if one.keyword is None else one.keyword.value
        if name not in parameters:
            return None
        given[parameters[name]] = one.value
    return given


def _rewrite_use(draft: Draft, use: _Use) -> None:
    if use.method in _DROPPED:
        assert use.statement is not None
        draft.edit(use.statement, lambda _: cst.RemoveFromParent())
        return
    typed = _TYPED[use.method]
    attribute = cst.ensure_type(use.call.func, cst.Attribute)
    name = cst.parse_expression(f"{cst.ensure_type(attribute.value, cst.Name).value}.{typed.name}")
    draft.edit(attribute, lambda _: name)
    draft.edit(use.call, lambda updated: _typed_call(cst.ensure_type(updated, cst.Call), typed))


def _typed_call(call: cst.Call, typed: _Typed) -> cst.Call:
    """Return the typed call, its first argument as it was, the others by name."""
    order, arguments = list(typed.parameters), list[cst.Arg]()
    given: set[str] = set()
    for index, one in enumerate(call.args):
        name = typed.parameters[one.keyword.value if one.keyword is not None else order[index]]
        given.add(name)
        is_first = index == 0 and one.keyword is None and name != _TIMEOUT["timeout"]
        arguments.append(one if is_first else keyword_argument(name, one.value).with_changes(comma=one.comma))
    missing = [(name, value) for name, value in typed.defaults.items() if name not in given]
    arguments += [keyword_argument(name, cst.parse_expression(value)) for name, value in missing]
    return with_arguments(call, arguments) if missing else call.with_changes(args=arguments)
