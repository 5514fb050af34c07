"""What is known of a method before it is called: id, name, messages, effect, where it runs, how its stream flows.

A person writes methods by name and by pattern:

    /hazel.rpc.SceneService/GetEntity      the full name
    SceneService/GetEntity                 the short name
    SceneService/*   */Get*   *            shell patterns of either

Of several patterns that fit the most exact one counts: a name before a pattern, then the longer text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple


class Effect(Enum):
    """What a call changes, and so whether it may be made a second time to compare two transports.

    READ: nothing; it may be repeated at any time. VIEW: what is shown of the simulation (images, scans, drawings) but
    not its course. IDEMPOTENT: something, and the same when it is made twice: it is made again where the first came to
    nothing, and never beside it. WORLD: the course of the simulation; it is never made twice on one engine.
    """

    READ = "read"
    VIEW = "view"
    IDEMPOTENT = "idempotent"
    WORLD = "world"


class Runs(Enum):
    """Where a handler runs.

    INLINE: on the thread that received the call; it takes less than 50 us, never waits and never touches the world.
    ENGINE: between two steps, the world standing still; a slow one holds up the next step. POOL: on a thread of its
    own beside the steps, for what may be slow; it leaves the world alone, and a stream reads it only through
    `Call.between_steps`.
    """

    INLINE = "inline"
    ENGINE = "engine"
    POOL = "pool"


class Flow(Enum):
    """How a stream treats a client that reads too slowly.

    LATEST: what it misses is skipped and counted, the next item is a fresh one. EVERY: the sender waits, no item is
    lost.
    """

    LATEST = "latest"
    EVERY = "every"


class Method(NamedTuple):
    """One method: wire id, full name ("/package.Service/Method"), message classes, effect and place.

    `stream` is None for a unary method (one request, one response), else how its items flow to the client.
    """

    id: int
    name: str
    request: type
    response: type
    effect: Effect
    runs: Runs
    stream: Flow | None = None

    @property
    def service(self) -> str:
        """The service's full name, "package.Service"."""
        return self.name[1:].partition("/")[0]

    @property
    def short_name(self) -> str:
        """The method's name without its service: "GetAgentSchema"."""
        return self.name.rpartition("/")[2]

    @property
    def python_name(self) -> str:
        """The method's name as a Python attribute: "GetAgentSchema" -> "get_agent_schema"."""
        return _snake(self.short_name)

    @property
    def python_service(self) -> str:
        """The service's name as a Python attribute: "hazel.rpc.MujocoSceneService" -> "mujoco_scene"."""
        return _snake(self.service.rpartition(".")[2].removesuffix("Service"))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def is_pattern(text: str) -> bool:
    """True for a shell pattern."""
    return any(sign in text for sign in "*?[")


def short_name(name: str) -> str:
    """Return "Service/Method" of a full name."""
    service, _, rest = name.removeprefix("/").rpartition("/")
    return f"{service.rpartition('.')[2]}/{rest}" if service else rest


def matches(name: str, pattern: str) -> bool:
    """True when a method's full or short name fits `pattern`."""
    spelt = (name, name.removeprefix("/"), short_name(name))
    return any(fnmatchcase(one, pattern) for one in spelt)


def most_exact(name: str, patterns: Iterable[str]) -> str | None:
    """Return which of the patterns that fit `name` counts, the first of equals; None when none fits."""
    return max((one for one in patterns if matches(name, one)), key=_exactness, default=None)


def _exactness(pattern: str) -> tuple[bool, int]:
    return not is_pattern(pattern), sum(sign not in "*?[]" for sign in pattern)
