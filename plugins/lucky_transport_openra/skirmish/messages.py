"""What a player of OpenRA-RL's bridge, or of a skirmish, sees and says. Positions are in 1/1024 of a cell from the
upper left corner, cells are counted from 0, `facing` goes from 0 to 1023 clockwise from north, money is in credits,
times are in ticks, shares are 0 to 1.

Generated from _pb/rl_bridge.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport.messages.scalars import F32, I32, U32, no_items

__all__ = [
    "Building",
    "Command",
    "Economy",
    "Kill",
    "MapInfo",
    "Military",
    "Observation",
    "Order",
    "Orders",
    "Production",
    "Unit",
]


class Order(IntEnum):
    """What a command asks for. FAST_ADVANCE is an order to the clock and does nothing in the world itself."""

    NO_OP = 0
    MOVE = 1
    ATTACK_MOVE = 2
    ATTACK = 3
    STOP = 4
    HARVEST = 5
    BUILD = 6
    TRAIN = 7
    DEPLOY = 8
    SELL = 9
    REPAIR = 10
    PLACE_BUILDING = 11
    CANCEL_PRODUCTION = 12
    SET_RALLY_POINT = 13
    GUARD = 14
    SET_STANCE = 15
    ENTER_TRANSPORT = 16
    UNLOAD = 17
    POWER_DOWN = 18
    SET_PRIMARY = 19
    SURRENDER = 20
    FAST_ADVANCE = 21
    PATROL = 22


@dataclass(slots=True)
class Observation:
    """All that our side knows after `tick`.

    spatial_map: float32 (height, width, spatial_channels), row-major; the skirmish's channels are
    `lucky_transport_openra.skirmish.view.CHANNELS`. explored_percent: 0 to 100. kill_events: the latest ones, oldest
    first; of the engine's own repository only.
    """

    tick: I32 = 0
    economy: Economy | None = None
    military: Military | None = None
    units: list[Unit] = field(default_factory=no_items)
    buildings: list[Building] = field(default_factory=no_items)
    production: list[Production] = field(default_factory=no_items)
    visible_enemies: list[Unit] = field(default_factory=no_items)
    map_info: MapInfo | None = None
    spatial_map: bytes = b""
    spatial_channels: I32 = 0
    available_production: list[str] = field(default_factory=no_items)
    visible_enemy_buildings: list[Building] = field(default_factory=no_items)
    explored_percent: F32 = 0.0
    kill_events: list[Kill] = field(default_factory=no_items)


@dataclass(slots=True)
class Kill:
    """One actor that was destroyed, where we saw it or had a part in it. attacker_actor_id: 0 for none."""

    tick: I32 = 0
    victim_actor_id: U32 = 0
    victim_type: str = ""
    victim_cell_x: I32 = 0
    victim_cell_y: I32 = 0
    attacker_actor_id: U32 = 0
    attacker_type: str = ""
    attacker_cell_x: I32 = 0
    attacker_cell_y: I32 = 0
    victim_is_own: bool = False
    attacker_is_own: bool = False
    victim_is_building: bool = False


@dataclass(slots=True)
class Economy:
    """Money and power. ore: what the harvesters carry. resource_capacity: what they can carry."""

    cash: I32 = 0
    ore: I32 = 0
    power_provided: I32 = 0
    power_drained: I32 = 0
    resource_capacity: I32 = 0
    harvester_count: I32 = 0


@dataclass(slots=True)
class Military:
    """Counts and values so far; *_cost and *_value in credits. experience: a hundredth of kills_cost."""

    units_killed: I32 = 0
    units_lost: I32 = 0
    buildings_killed: I32 = 0
    buildings_lost: I32 = 0
    army_value: I32 = 0
    active_unit_count: I32 = 0
    kills_cost: I32 = 0
    deaths_cost: I32 = 0
    assets_value: I32 = 0
    experience: I32 = 0
    order_count: I32 = 0


@dataclass(slots=True)
class Unit:
    """One unit. ammo: -1, unlimited. passenger_count: -1, no unit carries another. stance: 0 holds fire.

    hp_percent: 0 to 1, despite its name. path_blocked: the last cell it was sent to cannot be reached; of the engine's
    own repository only.
    """

    actor_id: U32 = 0
    type: str = ""
    pos_x: I32 = 0
    pos_y: I32 = 0
    cell_x: I32 = 0
    cell_y: I32 = 0
    hp_percent: F32 = 0.0
    is_idle: bool = False
    current_activity: str = ""
    owner: str = ""
    ammo: I32 = 0
    can_attack: bool = False
    facing: I32 = 0
    experience_level: I32 = 0
    stance: I32 = 0
    speed: I32 = 0
    attack_range: I32 = 0
    passenger_count: I32 = 0
    is_building: bool = False
    path_blocked: bool = False


@dataclass(slots=True)
class Building:
    """One building. rally_x, rally_y: the cell where its units go, -1 = none. power_amount: negative takes power."""

    actor_id: U32 = 0
    type: str = ""
    pos_x: I32 = 0
    pos_y: I32 = 0
    hp_percent: F32 = 0.0
    owner: str = ""
    is_producing: bool = False
    production_progress: F32 = 0.0
    producing_item: str = ""
    is_powered: bool = False
    is_repairing: bool = False
    sell_value: I32 = 0
    rally_x: I32 = 0
    rally_y: I32 = 0
    power_amount: I32 = 0
    can_produce: list[str] = field(default_factory=no_items)
    cell_x: I32 = 0
    cell_y: I32 = 0


@dataclass(slots=True)
class Production:
    """One item that is being made; a building at progress 1 waits for its place."""

    queue_type: str = ""
    item: str = ""
    progress: F32 = 0.0
    remaining_ticks: I32 = 0
    remaining_cost: I32 = 0
    paused: bool = False


@dataclass(slots=True)
class MapInfo:
    """The map's size in cells and its name."""

    width: I32 = 0
    height: I32 = 0
    map_name: str = ""


@dataclass(slots=True)
class Orders:
    """What a player says at once; obeyed in this order. An order that makes no sense is passed over."""

    commands: list[Command] = field(default_factory=no_items)


@dataclass(slots=True)
class Command:
    """One order. actor_id: which actor does it, 0 = every one of ours that can. target_actor_id: which it is about.

    target_x, target_y: a cell; (-1, -1) leaves the choice to the game (PLACE_BUILDING: a free place at the base,
    ATTACK_MOVE: the nearest enemy building known, else the enemy's start). item_type: what to build or train. queued:
    after what the actor does already. ticks: of FAST_ADVANCE.
    """

    action: Annotated[Order, "i32"] = Order.NO_OP
    actor_id: U32 = 0
    target_actor_id: U32 = 0
    target_x: I32 = 0
    target_y: I32 = 0
    item_type: str = ""
    queued: bool = False
    ticks: I32 = 0
