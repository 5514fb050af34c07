"""Building and training: queues, power, and places for buildings.

An item is paid for while it is made, so a side without money stands still but loses nothing. The first item of a queue
is made; a building that is ready waits there for its place.
"""

from __future__ import annotations

from lucky_transport_openra.skirmish.actor import Actor, Item, Player
from lucky_transport_openra.skirmish.rules import CELL, KINDS, QUEUES, ActorKind
from lucky_transport_openra.skirmish.state import GameState

_LONGEST_QUEUE = 10
_BASE_CELLS = 6


def available(side: Player) -> list[str]:
    """Return the names of what the side can make now."""
    owned = {actor.kind.name for actor in side.actors.values() if actor.kind.is_building}
    queues = {KINDS[name].makes for name in owned}
    return [kind.name for kind in KINDS.values() if kind.queue in queues and owned.issuperset(kind.needs)]


def maker(side: Player, queue: str) -> Actor | None:
    """Return the building from which what is made in the queue comes: the oldest that makes it."""
    return next((actor for actor in side.buildings() if actor.kind.makes == queue), None)


def start(side: Player, name: str) -> bool:
    """Put an item into its queue; False where the side cannot make it, or the queue is full."""
    if name not in available(side) or len(side.queues[KINDS[name].queue]) >= _LONGEST_QUEUE:
        return False
    side.queues[KINDS[name].queue].append(Item(KINDS[name]))
    return True


def cancel(side: Player, name: str) -> bool:
    """Take the newest item of that kind out of its queue and give its money back; False when there is none."""
    queue = side.queues.get(KINDS[name].queue, []) if name in KINDS else []
    for item in reversed(queue):
        if item.kind.name == name:
            queue.remove(item)
            side.cash += item.paid
            return True
    return False


def work(game: GameState, side: Player) -> None:
    """Do a tick's work on the first item of every queue."""
    powers = [actor.kind.power for actor in side.actors.values() if actor.kind.power]
    side.power_provided = sum(power for power in powers if power > 0)
    side.power_drained = -sum(power for power in powers if power < 0)
    pace = 2 if side.power_drained <= side.power_provided else 1
    for name in QUEUES:
        queue = side.queues[name]
        if queue and maker(side, name) is not None:
            _advance(game, side, queue, pace)


def _advance(game: GameState, side: Player, queue: list[Item], pace: int) -> None:
    item = queue[0]
    if item.is_ready:
        return
    total = 2 * item.kind.build_ticks
    done = min(total, item.done + pace)
    due = item.kind.cost * done // total - item.paid
    if due > side.cash:
        return
    side.cash -= due
    item.paid += due
    item.done = done
    if item.is_ready:
        game.happen("production_complete", side.number)
        if not item.kind.is_building:
            _leave_the_building(game, side, queue.pop(0).kind)


def _leave_the_building(game: GameState, side: Player, kind: ActorKind) -> None:
    home = maker(side, kind.queue)
    assert home is not None  # a unit that worked has a home
    game.add(kind, side, home.x // CELL, home.y // CELL)


def may_place(game: GameState, side: Player, x: int, y: int) -> bool:
    """True for a free cell near one of the side's buildings."""
    if not game.terrain.is_on_map(x, y) or game.terrain.rock[y, x] or y * game.terrain.width + x in game.ore:
        return False
    near = False
    for actor in game.actors.values():
        if actor.kind.is_building:
            far = max(abs(actor.x // CELL - x), abs(actor.y // CELL - y))
            if far < 2:
                return False
            near = near or (actor.side == side.number and far <= _BASE_CELLS)
    return near


def free_place(game: GameState, side: Player) -> tuple[int, int] | None:
    """Return the free cell nearest to the side's oldest building, None when there is none."""
    homes = side.buildings()
    if not homes:
        return None
    x, y = homes[0].x // CELL, homes[0].y // CELL
    for far in range(2, _BASE_CELLS + 1):
        for dy in range(-far, far + 1):
            for dx in range(-far, far + 1):
                if max(abs(dx), abs(dy)) == far and may_place(game, side, x + dx, y + dy):
                    return x + dx, y + dy
    return None


def place(game: GameState, side: Player, name: str, x: int, y: int) -> bool:
    """Put up the building that is ready; "" = whichever. False when none is, or not there. (-1, -1) = anywhere."""
    queue = side.queues["Building"]
    if not queue or not queue[0].is_ready or name not in ("", queue[0].kind.name):
        return False
    where = free_place(game, side) if (x, y) == (-1, -1) else (x, y)
    if where is None or not may_place(game, side, *where):
        return False
    building = game.add(queue.pop(0).kind, side, *where)
    if building.kind.name == "refinery":
        game.add(KINDS["harvester"], side, *where)
    return True
