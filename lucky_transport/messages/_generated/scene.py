"""The loaded scene: its entities, how simulated time runs, and the editor's play mode.

Generated from proto/scene.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport.messages._generated.common import EntityId, Transform
from lucky_transport.messages.scalars import U32, no_items, one_of

__all__ = [
    "EnterPlayModeRequest",
    "EnterPlayModeResponse",
    "EntityInfo",
    "ExitPlayModeRequest",
    "ExitPlayModeResponse",
    "GetEntityRequest",
    "GetEntityResponse",
    "GetSceneInfoRequest",
    "GetSceneInfoResponse",
    "GetSimulationModeRequest",
    "GetSimulationModeResponse",
    "ListEntitiesRequest",
    "ListEntitiesResponse",
    "SetEntityTransformRequest",
    "SetEntityTransformResponse",
    "SetSimulationModeRequest",
    "SetSimulationModeResponse",
    "SimulationMode",
]


class SimulationMode(IntEnum):
    """How simulated time passes.

    REALTIME: as fast as the wall clock; DETERMINISTIC: fixed steps, the engine's default; FAST: as fast as the machine
    can.
    """

    REALTIME = 0  # one simulated second per second of wall clock
    DETERMINISTIC = 1  # fixed rate; the engine's default
    FAST = 2  # as fast as the machine allows


@dataclass(slots=True)
class EntityInfo:
    """One entity; `transform` and `components` (names of types) are there where they were asked for."""

    id: EntityId | None = None
    name: str = ""
    transform: Transform | None = None
    components: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class GetSceneInfoRequest:
    """Asks which scene is loaded."""


@dataclass(slots=True)
class GetSceneInfoResponse:
    """The loaded scene; `entity_count` is the number of entities that ListEntities returns."""

    scene_name: str = ""
    scene_path: str = ""
    entity_count: U32 = 0


@dataclass(slots=True)
class ListEntitiesRequest:
    """Asks for all entities, with their transforms and components where wanted."""

    include_transforms: bool = False
    include_components: bool = False


@dataclass(slots=True)
class ListEntitiesResponse:
    """All entities of the scene."""

    entities: list[EntityInfo] = field(default_factory=no_items)


@one_of("id", "name")
@dataclass(slots=True)
class GetEntityRequest:
    """Asks for one entity by handle or by name (`id` counts when given)."""

    id: EntityId | None = None
    name: str = ""


@dataclass(slots=True)
class GetEntityResponse:
    """The entity with everything known of it; `found` is False where there is none."""

    found: bool = False
    entity: EntityInfo | None = None


@dataclass(slots=True)
class SetEntityTransformRequest:
    """Places an entity anew. The whole transform is replaced: fill every part of it."""

    id: EntityId | None = None
    transform: Transform | None = None


@dataclass(slots=True)
class SetEntityTransformResponse:
    """Whether the entity was moved, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class SetSimulationModeRequest:
    """Changes how simulated time passes; REALTIME may be refused while a client trains."""

    mode: Annotated[SimulationMode, "i32"] = SimulationMode.REALTIME


@dataclass(slots=True)
class SetSimulationModeResponse:
    """Whether the mode was changed, else why not, and the mode in force now."""

    success: bool = False
    message: str = ""
    current_mode: Annotated[SimulationMode, "i32"] = SimulationMode.REALTIME


@dataclass(slots=True)
class GetSimulationModeRequest:
    """Asks how simulated time passes."""


@dataclass(slots=True)
class GetSimulationModeResponse:
    """The mode in force."""

    mode: Annotated[SimulationMode, "i32"] = SimulationMode.REALTIME


@dataclass(slots=True)
class EnterPlayModeRequest:
    """Starts the simulation; answered at once, poll GetAgentSchema until the agents are there."""


@dataclass(slots=True)
class EnterPlayModeResponse:
    """Whether play mode starts, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class ExitPlayModeRequest:
    """Stops the simulation and with it the training session; answered at once."""


@dataclass(slots=True)
class ExitPlayModeResponse:
    """Whether play mode ends, else why not."""

    success: bool = False
    message: str = ""
