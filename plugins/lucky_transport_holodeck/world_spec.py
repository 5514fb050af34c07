"""A scenario as a batch: what one env, an agent, observes and does.

Agents of one batch are alike: of one type, with the same sensors. What is not is refused, by agent.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part, pack, views
from lucky_transport_holodeck.scenario import AgentPlan, Scenario, SensorPlan
from lucky_transport_holodeck.world_options import WorldOptions

__all__ = ["batch_of", "observation_rows"]


def batch_of(scenario: Scenario, options: WorldOptions) -> BatchSpec:
    """Return the spec of the scenario's agents; raises SpecError when they are no batch."""
    if not scenario.agents:
        raise SpecError("the scenario has no agents", backend="holodeck")
    first = scenario.agents[0]
    for other in scenario.agents[1:]:
        if _likeness(other) != _likeness(first):
            raise SpecError(
                f"agents {first.name!r} and {other.name!r} differ in type, control scheme or sensors: no batch",
                backend="holodeck",
                hint="lucky_transport_holodeck.world_client.WorldClient drives mixed worlds",
            )
    shown = _shown(first)
    if not shown:
        raise SpecError(f"agent {first.name!r} has no sensor to observe with", backend="holodeck")
    tasks = tuple(sensor.name for sensor in first.sensors if sensor.is_task)
    shared = ("world_reset",) if len(scenario.agents) > 1 else ()
    observation, parts = _array(shown[0]), ()
    if len(shown) > 1:
        observation, parts, _ = pack([Part((sensor.name,), _array(sensor)) for sensor in shown])
    scheme = first.kind.schemes[first.control_scheme]
    limit = list(scheme.limit) if isinstance(scheme.limit, tuple) else scheme.limit
    low = [-each for each in limit] if isinstance(limit, list) else None if limit is None else -limit
    return BatchSpec(
        engine=f"holodeck:{scenario.world}",
        num_envs=len(scenario.agents),
        observation=observation,
        action=ArraySpec("float32", (scheme.size,), low, limit),
        reward_terms=tasks or ("reward",),
        termination_terms=(*tasks, *shared),
        timeout_terms=shared,
        hold=False,
        step_s=options.ticks_per_step / options.ticks_per_second,
        observation_parts=parts,
    )


def _likeness(agent: AgentPlan) -> tuple[Any, ...]:
    return agent.kind, agent.control_scheme, tuple((each.name, each.kind, each.shape) for each in agent.sensors)


def _shown(agent: AgentPlan) -> list[SensorPlan]:
    return [sensor for sensor in agent.sensors if not sensor.is_task]


def _array(sensor: SensorPlan) -> ArraySpec:
    return ArraySpec(sensor.shape.dtype, sensor.shape.shape)


def observation_rows(spec: BatchSpec, agent: AgentPlan, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return sensor name -> view of `observations`, (num_envs, *its shape)."""
    if not spec.observation_parts:
        return {_shown(agent)[0].name: observations}
    return {str(path[0]): view for path, view in views(observations, spec.observation_parts).items()}
