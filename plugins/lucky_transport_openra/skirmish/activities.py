"""What actors do in a tick: one function per activity, all in `ACTIVITIES`. One that is over calls `finish`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt

from lucky_transport_openra.skirmish.actor import IDLE, Activity, Actor
from lucky_transport_openra.skirmish.rules import CELL
from lucky_transport_openra.skirmish.state import GameState

_SCAN_TICKS = 8
_HARVEST_CREDITS = 10


def live(game: GameState, actor: Actor) -> None:
    """Let the actor do its tick."""
    if actor.wait:
        actor.wait -= 1
    if actor.kind.damage:
        _fight(game, actor)
    if actor.kind.speed:
        ACTIVITIES[actor.activity.name](game, actor)


def finish(game: GameState, actor: Actor) -> None:
    """End what the actor does: it rests."""
    if actor.activity.name in ("move", "attack_move"):
        game.happen("unit_arrived", actor.side)
    actor.activity = IDLE


def _fight(game: GameState, actor: Actor) -> None:
    """Fire at the present target, or look for one."""
    target = game.actors.get(actor.target)
    if target is None or not _reaches(actor, target):
        actor.target = 0
        # nothing else to shoot at: the nearest enemy within range
        if (game.ticks + actor.id) % _SCAN_TICKS == 0:
            target = _nearest(game, actor)
            actor.target = target.id if target else 0
        return
    if actor.wait:
        return
    actor.wait = actor.kind.cooldown_ticks
    target.hp -= actor.kind.damage
    game.happen("under_attack", target.side)
    if target.hp <= 0:
        game.destroy(target, actor)
        actor.target = 0


def _distance(one: Actor, other: Actor) -> int:
    """Return the square of the distance."""
    return (one.x - other.x) ** 2 + (one.y - other.y) ** 2


def _reaches(actor: Actor, target: Actor) -> bool:
    return _distance(actor, target) <= (actor.kind.range_cells * CELL) ** 2


def _nearest(game: GameState, actor: Actor) -> Actor | None:
    """Return the nearest enemy within range, the oldest of equals."""
    near = [other for other in game.enemy_of(actor).actors.values() if _reaches(actor, other)]
    return min(near, key=lambda other: _distance(actor, other), default=None)


def _walk(game: GameState, actor: Actor, goal: int) -> bool:
    """Go one tick's way to the cell `goal`; True when the actor is there, or cannot get there."""
    width = game.terrain.width
    here = actor.cell(width)
    if here == goal:
        return True
    step = game.terrain.next_cell(here, goal)
    actor.is_blocked = step < 0
    if actor.is_blocked:
        return True
    y, x = divmod(step, width)
    dx, dy = x * CELL + CELL // 2 - actor.x, y * CELL + CELL // 2 - actor.y
    far = isqrt(dx * dx + dy * dy) or 1
    pace = min(actor.kind.speed, far)
    actor.x += dx * pace // far
    actor.y += dy * pace // far
    actor.facing = _FACINGS[(dx > 0) - (dx < 0), (dy > 0) - (dy < 0)]
    return False


#: Sign of the way -> facing.
_FACINGS = {
    (0, -1): 0, (1, -1): 128, (1, 0): 256, (1, 1): 384, (0, 1): 512, (-1, 1): 640, (-1, 0): 768, (-1, -1): 896,
    (0, 0): 0,
}  # fmt: skip


def _idle(game: GameState, actor: Actor) -> None:
    if actor.kind.carries:
        actor.activity = Activity("harvest")


def _move(game: GameState, actor: Actor) -> None:
    if _walk(game, actor, actor.activity.cell):
        finish(game, actor)


def _attack_move(game: GameState, actor: Actor) -> None:
    """Go there, and stand still for as long as there is a target."""
    if not actor.target and _walk(game, actor, actor.activity.cell):
        finish(game, actor)


def _attack(game: GameState, actor: Actor) -> None:
    target = game.actors.get(actor.activity.target)
    if target is None:
        finish(game, actor)
    elif _reaches(actor, target):
        actor.target = target.id
    elif _walk(game, actor, target.cell(game.terrain.width)):
        finish(game, actor)


def _harvest(game: GameState, actor: Actor) -> None:
    """Fill up at the cell, or at the nearest one with ore; then bring it home."""
    if actor.load >= actor.kind.carries:
        actor.activity = Activity("deliver", actor.activity.cell)
        return
    cell = actor.activity.cell
    if not game.ore.get(cell):
        cell = _nearest_ore(game, actor)
        if cell < 0:
            actor.activity = Activity("deliver") if actor.load else IDLE
            return
        actor.activity = Activity("harvest", cell)
    if _walk(game, actor, cell):
        if actor.is_blocked:
            actor.activity = IDLE
            return
        taken = min(_HARVEST_CREDITS, game.ore[cell], actor.kind.carries - actor.load)
        game.ore[cell] -= taken
        actor.load += taken


def _nearest_ore(game: GameState, actor: Actor) -> int:
    width = game.terrain.width
    y, x = divmod(actor.cell(width), width)
    cells = (cell for cell, left in game.ore.items() if left)
    return min(cells, key=lambda cell: max(abs(cell // width - y), abs(cell % width - x)), default=-1)


def _deliver(game: GameState, actor: Actor) -> None:
    """Bring the load to the nearest refinery, then go back to where it came from."""
    side = game.sides[actor.side]
    homes = [home for home in side.actors.values() if home.kind.name == "refinery"]
    if not homes:
        return  # wait for one
    home = min(homes, key=lambda one: _distance(actor, one))
    if _walk(game, actor, home.cell(game.terrain.width)):
        side.cash += actor.load
        actor.load = 0
        actor.activity = Activity("harvest", actor.activity.cell)


ACTIVITIES: Mapping[str, Callable[[GameState, Actor], None]] = {
    "idle": _idle,
    "move": _move,
    "attack_move": _attack_move,
    "attack": _attack,
    "harvest": _harvest,
    "deliver": _deliver,
}
