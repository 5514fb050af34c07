"""What both examples share: the task, a linear policy, and how the engine is found.

The same program trains against an engine of ours and against a Unity build.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.process import python_command, unique_name
from lucky_transport_pipe.instance import Instance

_KEYS = ("CartPosition", "CartVelocity", "PoleAngle", "PoleAngularVelocity")
#: A weight for each value of the state.
PARAMETERS = len(_KEYS)
_OWN_ENGINE = python_command("lucky_transport_pipe", "cartpole")


def arguments(summary: str) -> Namespace:
    """Return the command line's arguments."""
    parser = ArgumentParser(description=summary)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=32, help="sessions of one epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pipe", help="wait for an engine at this pipe, instead of starting one")
    parser.add_argument("--executable", nargs="+", default=_OWN_ENGINE, help="the engine to start: a Unity build, say")
    return parser.parse_args()


def open_instance(options: Namespace) -> Instance:
    """Return the engine's instance: one that connects by itself, or one that is started here."""
    if options.pipe:
        return Instance(options.pipe)
    return Instance(unique_name(), options.executable)


def init_of(wind_seed: int, initial_angle: float) -> dict[str, Any]:
    """Return a session's init data. `Wind`, the strongest gust in N, is for our engine; Unity ignores it."""
    return {"WindSeed": wind_seed, "InitialAngle": initial_angle, "Wind": 2.0}


def play(unity: Instance, agents: Sequence[NDArray[np.float64]], inits: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the score of each session, in which the agent of the same place (its weights) plays."""

    def decide(session: int, state: Mapping[str, float]) -> dict[str, bool]:
        weights = agents[session]
        return {"MoveRight": sum(w * state[key] for w, key in zip(weights, _KEYS, strict=True)) > 0}

    return unity.experiment("cart_pole", inits).play(decide)
