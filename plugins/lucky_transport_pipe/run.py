"""An engine's worlds as experiments of the protocol, and one run of an experiment on the engine's side: its sessions,
as many at once as there are slots.

    run = Run(experiments, map_name, inits, rules, send, warn)
    run.command(3, '{"MoveRight":true}')        # whenever a line comes
    run.advance()                               # then: everything that can be done now
    run.wake_at                                 # when to advance although nothing came

It does no I/O.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from lucky_transport.errors import EngineFailed
from lucky_transport.world import World, Worlds
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.json_codec import decode, encode, snake_case
from lucky_transport_pipe.lines import score_text
from lucky_transport_pipe.options import SessionRules

_log = logging.getLogger("lucky_transport")
_SEED = "Seed"
_LARGEST_SEED = (1 << 64) - 1


@contextmanager
def world_of(session: int, what: str = "failed") -> Generator[None]:
    """Call the world of a session: it is foreign code, and whatever it raises is raised as EngineFailed."""
    try:
        yield
    except BaseException as error:
        raise EngineFailed(f"session {session} {what}: {type(error).__name__}: {error}", backend=BACKEND) from error


class Experiments:
    """The experiments of `worlds`; `engine` is the engine's name.

    Every map is an experiment, and the engine's own name is its first map. In init data a key that ends in "Seed" is
    the world's seed, every other key is an option of the world.

    state, command: an observation as text, and a text as an action; they raise ValueError for what does not fit.
    """

    def __init__(self, worlds: Worlds, engine: str) -> None:
        self._worlds = worlds
        self._maps = {_plain(engine): worlds.maps[0]} | {_plain(name): name for name in worlds.maps}
        self.state = partial(encode, worlds.observation)
        self.command = partial(decode, worlds.action)

    def find(self, name: str) -> str | None:
        """Return the map behind an experiment's name, None when there is none."""
        return self._maps.get(_plain(name))

    def create(self, session: int, map_name: str, init: Mapping[str, Any]) -> World:
        """Return a new world for a session's init data. Raises EngineFailed."""
        with world_of(session, "could not be started"):
            return self._worlds.create(map_name, _seed(init), _options(init))


def _plain(name: str) -> str:
    """Return a name without case, "_" and "-": programs run "cart_pole" and mean the engine `cartpole`."""
    return name.replace("_", "").replace("-", "").lower()


def _seed(init: Mapping[str, Any]) -> int | None:
    seeds = {key: value for key, value in init.items() if key.endswith(_SEED)}
    if len(seeds) > 1:
        raise ValueError(f"{' and '.join(seeds)}: a world has one seed")
    for key, seed in seeds.items():
        if type(seed) is not int or not 0 <= seed <= _LARGEST_SEED:
            raise ValueError(f"{key} is {seed!r}, expected an integer from 0 to {_LARGEST_SEED}")
        return seed
    return None


def _options(init: Mapping[str, Any]) -> dict[str, Any]:
    return {snake_case(key): value for key, value in init.items() if not key.endswith(_SEED)}


class _Session:
    """One session that runs. commands: messages that came and were not used yet."""

    __slots__ = ("commands", "expires_at", "number", "world")

    def __init__(self, number: int, world: World, commands: deque[Any]) -> None:
        self.number = number
        self.world = world
        self.commands = commands
        self.expires_at = math.inf


class Run:
    """`send(line)` sends one line, without its end; `warn(text)` a warning.

    A session takes commands from its own queue only, and has a deadline of its own for the next one: when it has
    passed, the session ends with its score so far, and delays no other. wake_at: no deadline passes before this moment
    of the monotonic clock.
    """

    def __init__(
        self,
        experiments: Experiments,
        map_name: str,
        inits: Sequence[Mapping[str, Any]],
        rules: SessionRules,
        send: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._experiments = experiments
        self._map_name = map_name
        self._inits = inits
        self._rules = rules
        self._send, self._warn = send, warn
        self.wake_at = 0.0
        self._next = 0
        self._running: dict[int, _Session] = {}
        self._early: dict[int, deque[Any]] = {}
        self._fresh: list[_Session] = []  # got a command since they were looked at last

    @property
    def is_over(self) -> bool:
        """True when every session has had its score."""
        return not self._running and self._next == len(self._inits)

    def command(self, number: int, text: str) -> None:
        """Keep a command for that session's next step; what no session can take is warned of and dropped."""
        session = self._running.get(number)
        if session is None and not self._next <= number < len(self._inits):
            state = "has ended" if 0 <= number < self._next else "is none of this run"
            self._warn(f"session {number} {state}; its command is dropped")
            return
        try:
            command = self._experiments.command(text)
        except ValueError as error:
            self._warn(f"session {number}: {error}; the command is dropped")
            return
        if session is None:
            self._early.setdefault(number, deque()).append(command)
        else:
            session.commands.append(command)
            session.expires_at = math.inf
            self._fresh.append(session)

    def advance(self) -> None:
        """Step whatever can step, start whatever can start. Raises EngineFailed, with the session that failed."""
        stepped: list[_Session] = []
        while True:
            self._report(stepped)
            stepped = self._step()
            if not stepped and not self._expire():
                return

    def _report(self, stepped: list[_Session]) -> None:
        """Send the scores of the sessions that are over, start others in their place, and then send the states.

        With a barrier this is one step of all, as in the original: at each state a program knows which sessions run.
        Without one it is a step of those that had a command, and a score may follow another session's state.
        """
        asking = [session for session in stepped if not self._has_ended(session)]
        while started := self._start():
            asking += [session for session in started if not self._has_ended(session)]
        for session in asking:
            self._show(session)

    def _start(self) -> list[_Session]:
        """Start as many sessions as there are free slots for, and return them."""
        started: list[_Session] = []
        while self._next < len(self._inits) and len(self._running) < self._rules.slots:
            number = self._next
            self._next += 1
            world = self._experiments.create(number, self._map_name, self._inits[number])
            session = self._running[number] = _Session(number, world, self._early.pop(number, deque()))
            started.append(session)
            self._send(str(number))
        return started

    def _step(self) -> list[_Session]:
        """Step the sessions that may, and return them: each that has a command, with a barrier all or none."""
        if self._rules.barrier:
            sessions = list(self._running.values())
            ready = sessions if all(session.commands for session in sessions) else []
        else:
            ready = [session for session in dict.fromkeys(self._fresh) if session.commands]
        self._fresh.clear()
        for session in ready:
            with world_of(session.number):
                session.world.act((session.commands.popleft(),))
                session.world.tick()
        return ready

    def _has_ended(self, session: _Session) -> bool:
        """Send the score of a session that is over; False for one that goes on."""
        with world_of(session.number):
            is_over = session.world.is_over
        if is_over:
            self._end(session)
        return is_over

    def _show(self, session: _Session) -> None:
        """Send the state; the deadline for the next command starts now."""
        with world_of(session.number, "has no state to show"):
            state = self._experiments.state(session.world.observe())
        self._send(f"{session.number} {state}")
        if session.commands:
            self._fresh.append(session)
        else:
            session.expires_at = time.monotonic() + self._rules.timeout_s

    def _end(self, session: _Session) -> None:
        del self._running[session.number]
        with world_of(session.number, "could not be ended"):
            score = score_text(session.world.score)
            session.world.close()
        self._send(f"{session.number} {score}")
        if session.commands:
            self._warn(f"session {session.number} has ended; {len(session.commands)} of its commands are dropped")
            session.commands.clear()

    def _expire(self) -> bool:
        """End the sessions that have waited for too long; False when there are none."""
        now = time.monotonic()
        if now < self.wake_at:  # deadlines only ever get later
            return False
        late = [session for session in self._running.values() if session.expires_at <= now]
        for session in late:
            self._warn(f"session {session.number} got no command within {self._rules.timeout_s:g} s and ends")
            self._end(session)
        self.wake_at = min((session.expires_at for session in self._running.values()), default=math.inf)
        self.wake_at = min(self.wake_at, now + self._rules.timeout_s)  # of those whose command is here already
        return bool(late)

    def close(self) -> None:
        """Close every world, also where one fails in it, which is logged; idempotent."""
        while self._running:
            number, session = self._running.popitem()
            try:
                with world_of(number, "could not be ended"):
                    session.world.close()
            except EngineFailed as error:
                _log.warning("pipe: %s", error)
