"""An engine's worlds as experiments of the protocol: names, init data, states, commands."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from lucky_transport.errors import EngineFailed
from lucky_transport.world import World, Worlds
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.json_codec import decode, encode, snake_case

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
