"""One game: its start, one tick of it, and its orders.

Commands become activities: one function per order, all in `OBEY`. A player commands its own actors only; what makes no
sense is passed over, and only what was obeyed is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lucky_transport_openra.skirmish import activities, production, view
from lucky_transport_openra.skirmish.actor import IDLE, Activity, Actor, Player
from lucky_transport_openra.skirmish.messages import Command, Order
from lucky_transport_openra.skirmish.rules import CELL, KINDS
from lucky_transport_openra.skirmish.state import GameState
from lucky_transport_openra.skirmish.terrain import Terrain

_START = (("builder", 0, 0), ("rifle", 1, 0), ("rifle", 0, 1), ("rifle", 1, 1), ("harvester", -1, 0))
#: Sides look around on every fourth tick.
_LOOK_TICKS = 4


class Game(GameState):
    """A game from its first tick to its end."""

    def __init__(self, terrain: Terrain, seed: int, *, cash: int, max_ticks: int) -> None:
        super().__init__(terrain, seed, cash=cash, max_ticks=max_ticks)
        for side, start in zip(self.sides, self.starts, strict=True):
            y, x = divmod(start, terrain.width)
            for name, dx, dy in _START:
                self.add(KINDS[name], side, x + dx, y + dy)
            view.look(self, side)
        self.events.clear()  # what one sees from the start is no news

    def tick(self) -> tuple[str, ...]:
        """Advance by one tick and return the names of what happened; does nothing once the game is over."""
        if self.is_over:
            return ()
        self.ticks += 1
        self.events.clear()
        for side in self.sides:
            production.work(self, side)
        for actor in list(self.actors.values()):
            if actor.id in self.actors:  # it may have fallen earlier in this tick
                activities.live(self, actor)
        if self.ticks % _LOOK_TICKS == 0:
            for side in self.sides:
                view.look(self, side)
        self._judge()
        return tuple(self.events)

    def _judge(self) -> None:
        beaten = [side.number for side in self.sides if side.is_beaten]
        if beaten or (self.max_ticks and self.ticks >= self.max_ticks):
            self.is_over = True
            self.winner = 1 - beaten[0] if len(beaten) == 1 else -1
            self.happen("game_over")


_Obey = Callable[[Game, Player, Command], bool]


def obey(game: Game, side: Player, command: Command) -> bool:
    """Do what the command says, as far as it makes sense; True when it did."""
    handler = OBEY.get(command.action)
    obeyed = handler is not None and not game.is_over and handler(game, side, command)
    side.order_count += obeyed
    return obeyed


def _who(side: Player, command: Command, can: Callable[[Actor], bool]) -> list[Actor]:
    """Return the actors that the command is for and that can do it."""
    if command.actor_id:
        actor = side.actors.get(command.actor_id)
        return [actor] if actor is not None and can(actor) else []
    return [actor for actor in side.actors.values() if can(actor)]


def _set(actors: list[Actor], activity: Activity) -> bool:
    """Give the actors something to do."""
    for actor in actors:
        actor.is_blocked = False
        actor.activity = activity
        actor.target = 0
    return bool(actors)


def _is_unit(actor: Actor) -> bool:
    return bool(actor.kind.speed)


def _is_army(actor: Actor) -> bool:
    return actor.kind.is_army


def _cell(game: Game, command: Command) -> int:
    """Return the cell the command names, -1 when it is not on the map."""
    x, y = command.target_x, command.target_y
    return y * game.terrain.width + x if game.terrain.is_on_map(x, y) else -1


def _move(game: Game, side: Player, command: Command) -> bool:
    cell = _cell(game, command)
    return cell >= 0 and _set(_who(side, command, _is_unit), Activity("move", cell))


def _attack_move(game: Game, side: Player, command: Command) -> bool:
    cell = _cell(game, command)
    if (command.target_x, command.target_y) == (-1, -1):
        cell = _enemy_cell(game, side)
    return cell >= 0 and _set(_who(side, command, _is_army), Activity("attack_move", cell))


def _enemy_cell(game: Game, side: Player) -> int:
    """Return the cell of the oldest enemy building that the side knows, else where the enemy started."""
    enemy = game.sides[1 - side.number]
    known = (one for one in enemy.buildings() if one.id in side.known_enemies)
    return next((one.cell(game.terrain.width) for one in known), game.starts[enemy.number])


def _attack(game: Game, side: Player, command: Command) -> bool:
    target = game.actors.get(command.target_actor_id)
    if target is None or target.side == side.number or target.id not in side.known_enemies:
        return False
    return _set(_who(side, command, _is_army), Activity("attack", target=target.id))


def _stop(game: Game, side: Player, command: Command) -> bool:
    return _set(_who(side, command, _is_unit), IDLE)


def _harvest(game: Game, side: Player, command: Command) -> bool:
    actors = _who(side, command, lambda actor: bool(actor.kind.carries))
    return _set(actors, Activity("harvest", _cell(game, command)))


def _make(game: Game, side: Player, command: Command) -> bool:
    is_building = command.item_type in KINDS and KINDS[command.item_type].is_building
    return is_building is (command.action == Order.BUILD) and production.start(side, command.item_type)


def _deploy(game: Game, side: Player, command: Command) -> bool:
    """A builder becomes a base where it stands."""
    builders = _who(side, command, lambda actor: actor.kind.name == "builder")
    for actor in builders:
        game.remove(actor)
        game.add(KINDS["base"], side, actor.x // CELL, actor.y // CELL)
    return bool(builders)


def _place(game: Game, side: Player, command: Command) -> bool:
    return production.place(game, side, command.item_type, command.target_x, command.target_y)


def _cancel(game: Game, side: Player, command: Command) -> bool:
    return production.cancel(side, command.item_type)


def _surrender(game: Game, side: Player, command: Command) -> bool:
    side.has_surrendered = True
    return True


#: NO_OP and FAST_ADVANCE ask for nothing. What is not here is taken and does nothing: this game has no transports, no
#: guards, patrols, repairs, sales and rally points, its units always return fire, and its buildings are on and equal.
OBEY: Mapping[int, _Obey] = {
    Order.MOVE: _move,
    Order.ATTACK_MOVE: _attack_move,
    Order.ATTACK: _attack,
    Order.STOP: _stop,
    Order.HARVEST: _harvest,
    Order.BUILD: _make,
    Order.TRAIN: _make,
    Order.DEPLOY: _deploy,
    Order.PLACE_BUILDING: _place,
    Order.CANCEL_PRODUCTION: _cancel,
    Order.SURRENDER: _surrender,
}
