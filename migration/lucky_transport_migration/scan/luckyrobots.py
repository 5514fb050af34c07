"""Programs for luckyrobots move to lucky_transport: `LuckyEnv` to the env of that name, a client to typed calls.

from luckyrobots import LuckyEnv            from lucky_transport import LuckyEnv
LuckyEnv(robot="go2", port=50051)           LuckyEnv(robot="go2")

client = LuckyEngineClient(port=50051)      client = lucky_transport.connect()
client.connect()
client.reset_agent("agent_0").success       client.agent.reset("agent_0").success
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import Assignment, ClassScope

from lucky_transport.client.service import SERVICES
from lucky_transport_migration.scan.codemod import (
    EngineCodemod,
    bound_name,
    has_stars,
    imported,
    keyword_argument,
    text_node,
    with_arguments,
)
from lucky_transport_migration.scan.known import luckyrobots_class
from lucky_transport_migration.scan.results import Obstacle, ResultUses
from lucky_transport_migration.scan.targets import Found, Targets

# -- LuckyEnv

_ENV = "LuckyEnv"
_ENV_IMPORT = f"from lucky_transport import {_ENV}"
_ADDRESS = {"host", "port"}
_BY_POSITION = 6  # parameters before `host`
_INSIDE = "_client"


def rewrite_envs(codemod: EngineCodemod, targets: Targets) -> None:
    """Have every LuckyEnv of a file taken from lucky_transport; at the endpoint that its address stands for.

    `host` and `port` go, if they are the engine's. A file that looks inside the env, or derives from it, is left.
    """
    calls = [call for call in codemod.nodes(cst.Call) if _is_env(codemod, call.func)]
    aliases = [(one, alias) for one in codemod.nodes(cst.ImportFrom) for alias in _env_aliases(one)]
    if not calls and not aliases:
        return
    if (obstacle := _env_obstacle(codemod, calls, [one for one, _ in aliases], targets)) is not None:
        codemod.refuse(obstacle.node, obstacle.why)
        return
    for statement, alias in aliases:
        name = bound_name(alias)
        codemod.move_import(statement, name, _ENV_IMPORT if name == _ENV else f"{_ENV_IMPORT} as {name}")
    for node in codemod.nodes(cst.Attribute):
        if _is_env(codemod, node):
            codemod.rename(node, _ENV, needs=_ENV_IMPORT)
    for call in calls:
        endpoint = _address(codemod, call, targets).endpoint
        codemod.edit(call, lambda updated, endpoint=endpoint: _without_address(updated, endpoint))


def _is_env(codemod: EngineCodemod, node: cst.CSTNode) -> bool:
    names = codemod.names(node)
    return bool(names) and all(luckyrobots_class(name) == _ENV for name in names)


def _env_aliases(statement: cst.ImportFrom) -> list[cst.ImportAlias]:
    if isinstance(statement.names, cst.ImportStar) or statement.relative:
        return []
    found = zip(statement.names, imported(statement), strict=True)
    return [alias for alias, name in found if luckyrobots_class(name) == _ENV]


def _env_obstacle(
    codemod: EngineCodemod, calls: list[cst.Call], imports: list[cst.ImportFrom], targets: Targets
) -> Obstacle | None:
    for statement in imports:
        if not isinstance(codemod.parent(statement), cst.SimpleStatementLine):
            return Obstacle(statement, "its import shares a line with the block it is in: give it a line of its own")
    for call in calls:
        if has_stars(call) or sum(one.keyword is None for one in call.args) > _BY_POSITION:
            return Obstacle(call, "its host and port cannot be told from its other arguments: pass them by name")
        if why := _address(codemod, call, targets).why_not:
            return Obstacle(call, why)
    for node, name in codemod.values_of(lambda name: luckyrobots_class(name) == _ENV):
        return Obstacle(node, f"{name} is passed on as a value, so what it is called with is not to be seen here")
    for node in codemod.nodes(cst.ClassDef):
        if any(_is_env(codemod, base.value) for base in node.bases):
            why = "a class derives from LuckyEnv: look at what it overrides, then import it from lucky_transport"
            return Obstacle(node, why)
    for node in codemod.nodes(cst.Attribute):
        if node.attr.value == _INSIDE:
            return Obstacle(node, f"the env's {_INSIDE} is used: lucky_transport.connect() has its calls, typed")
    return None


def _address(codemod: EngineCodemod, call: cst.Call, targets: Targets) -> Found:
    named = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    return targets.at(codemod, named.get("host"), named.get("port"))


def _without_address(call: cst.Call, endpoint: str | None) -> cst.Call:
    kept = [one for one in call.args if one.keyword is None or one.keyword.value not in _ADDRESS]
    if endpoint is not None:
        kept.append(keyword_argument("endpoint", text_node(endpoint)))
        if len(kept) > 1 and isinstance(kept[-2].comma, cst.MaybeSentinel):
            kept[-2] = kept[-2].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call if len(kept) == len(call.args) and endpoint is None else with_arguments(call, kept)


# -- LuckyEngineClient

_CLIENT = "LuckyEngineClient"
_CONNECT = "lucky_transport.connect"
_TIMEOUT = {"timeout": "timeout_s"}

#: Parameters of LuckyEngineClient and what becomes of them; "" for what is gRPC's address.
_PARAMETERS = {"host": "", "port": "", "timeout": "command_timeout_s"}
#: Calls that a typed client needs none for, where nothing is done with what they return.
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


def rewrite_clients(codemod: EngineCodemod, targets: Targets) -> None:
    """Have a client made by `lucky_transport.connect`, where each of its calls and what is done with the result has a
    typed twin: all uses are rewritten or none.

    Uses are seen within the file; a client that other files import by its name is not for this rule.
    """
    for call in codemod.nodes(cst.Call):
        if _is_client(codemod, call.func):
            _rewrite_client(codemod, call, targets)
    for node, name in codemod.values_of(lambda name: luckyrobots_class(name) == _CLIENT):
        codemod.refuse(node, f"{name} is passed on as a value, so what is done with the client is not to be seen here")
    for node in codemod.nodes(cst.ClassDef):
        if any(_is_client(codemod, base.value) for base in node.bases):
            codemod.refuse(
                node, "a class derives from LuckyEngineClient: lucky_transport.connect() has its calls, typed"
            )


def _is_client(codemod: EngineCodemod, node: cst.CSTNode) -> bool:
    names = codemod.names(node)
    return bool(names) and all(luckyrobots_class(name) == _CLIENT for name in names)


def _rewrite_client(codemod: EngineCodemod, call: cst.Call, targets: Targets) -> None:
    variable = _variable(codemod, call)
    made = _arguments(call, {name: name for name in _PARAMETERS})
    if variable is None or made is None:
        codemod.refuse(call, "only a client that a plain name holds, made with host, port and timeout, can be followed")
        return
    found = targets.at(codemod, made.get("host"), made.get("port"))
    if found.why_not:
        codemod.refuse(call, found.why_not)
        return
    calls: list[cst.Call] = []
    obstacles: list[Obstacle] = []
    results = ResultUses(codemod)
    for access in variable.references:
        use = _call_of(codemod, access.node)
        if use is None or not _is_known(codemod, use):
            why = "a use of the client whose typed twin answers otherwise, or is not known to a rule"
            obstacles.append(Obstacle(access.node, why))
            continue
        calls.append(use)
        service, _, name = _typed(use).name.partition(".") if _method(use) in _TYPED else ("", "", "")
        if name:
            obstacles += results.obstacles(use, SERVICES[service][name])
    obstacles += results.obstacles_of_names()
    for obstacle in obstacles:
        codemod.refuse(obstacle.node, obstacle.why)
    if obstacles:
        return
    given = {_PARAMETERS[name]: value for name, value in made.items() if _PARAMETERS[name]}
    arguments = [cst.Arg(text_node(found.endpoint))] if found.endpoint is not None else []
    arguments += [keyword_argument(name, value) for name, value in given.items()]
    codemod.rename(call.func, _CONNECT, needs="import lucky_transport")
    codemod.edit(call, lambda updated: with_arguments(updated, arguments))
    for use in calls:
        _rewrite_use(codemod, use)


def _variable(codemod: EngineCodemod, call: cst.Call) -> Assignment | None:
    """Return what binds the name that is assigned the client, once in its scope; None for anything else."""
    statement = codemod.parent(call)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    found = codemod.bindings_of(target) if isinstance(target, cst.Name) else []
    bound = [one for one in found if isinstance(one, Assignment)]
    return bound[0] if len(bound) == 1 and not isinstance(bound[0].scope, ClassScope) else None


def _call_of(codemod: EngineCodemod, node: cst.CSTNode) -> cst.Call | None:
    """Return the call of a method of the client that `node` stands for; None for any other use."""
    attribute = node if isinstance(node, cst.Attribute) else codemod.parent(node)
    if not isinstance(attribute, cst.Attribute) or not isinstance(attribute.value, cst.Name):
        return None
    call = codemod.parent(attribute)
    return call if isinstance(call, cst.Call) and call.func is attribute else None


def _method(call: cst.Call) -> str:
    return cst.ensure_type(call.func, cst.Attribute).attr.value


def _typed(call: cst.Call) -> _Typed:
    return _TYPED[_method(call)]


def _statement(codemod: EngineCodemod, call: cst.Call) -> cst.SimpleStatementLine | None:
    """Return the line that is nothing but this call."""
    expression = codemod.parent(call)
    line = codemod.parent(expression) if isinstance(expression, cst.Expr) else None
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


def _is_known(codemod: EngineCodemod, call: cst.Call) -> bool:
    if _method(call) in _DROPPED:
        return _statement(codemod, call) is not None
    given = _arguments(call, _typed(call).parameters) if _method(call) in _TYPED else None
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


def _rewrite_use(codemod: EngineCodemod, call: cst.Call) -> None:
    if _method(call) in _DROPPED:
        statement = _statement(codemod, call)
        assert statement is not None
        codemod.edit(statement, lambda _: cst.RemoveFromParent())
        return
    typed = _typed(call)
    attribute = cst.ensure_type(call.func, cst.Attribute)
    name = cst.parse_expression(f"{cst.ensure_type(attribute.value, cst.Name).value}.{typed.name}")
    codemod.edit(attribute, lambda _: name)
    codemod.edit(call, lambda updated: _typed_call(updated, typed))


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
