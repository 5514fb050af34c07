"""The remote half: one actor with its engine, in a process of the node it is on.

Only actions and frames leave the node: between the actor and its engine there is a transport of that node. Errors go
back as values, so that each arrives as the class it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout, TransportError, from_wire, to_wire_error
from lucky_transport.messages.methods import METHODS, method

__all__ = ["EngineActor", "Failure", "FrameArrays"]

#: The engine died, hangs, or was told to end.
_LOST = (PeerDied, PeerTimeout, ClosedError)

#: observations, rewards, terminated, truncated, signals of one actor's envs.
FrameArrays = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way back. is_lost: the engine is gone or hangs, so that the actor is of no use any more."""

    code: int
    text: str
    hint: str
    is_lost: bool

    @classmethod
    def of(cls, engine: str, what: str, error: Exception) -> Failure:
        """Return the failure for whatever `what` raised."""
        known = to_wire_error(engine, what, error)
        return cls(known.wire_code, str(known), known.hint, isinstance(known, _LOST))

    def error(self) -> TransportError:
        """Return the error, of the class that it had."""
        error = from_wire(self.code, self.text, backend="ray")
        error.hint = self.hint
        return error


class EngineActor:
    """An engine and the transport to it. Every method returns its result or a `Failure`."""

    def __init__(
        self,
        engine: str,
        num_envs: int,
        seed: int | None,
        options: Mapping[str, Any],
        transport: str,
        step_timeout_s: float,
    ) -> None:
        self._engine = engine
        self._failure: Failure | None = None
        try:
            self._env = api.make(
                engine,
                num_envs,
                seed=seed,
                options=options,
                transport=transport,
                step_timeout_s=step_timeout_s,
                endpoint="",  # whatever the program's own is
            )
            self._transport = self._env.transport
        except Exception as error:  # told by `describe`: what a constructor raises, Ray wraps into its own text
            self._failure = Failure.of(engine, "the start of its engine", error)

    def describe(self) -> tuple[str, list[str], str] | Failure:
        """Return the spec as JSON, the names of the methods the engine answers, and where it runs."""
        if self._failure is not None:
            return self._failure
        answered = [row.name for row in METHODS if self._transport.implements(row) is not False]
        return self._transport.spec.to_json(), answered, f"pid {os.getpid()} on {os.uname().nodename}"

    def step(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> FrameArrays | Failure:
        """Do one exchange."""
        try:
            frame = self._transport.step(actions, control)
        except Exception as error:
            return Failure.of(self._engine, "a step", error)
        return (
            frame.observations.copy(),
            frame.rewards.copy(),
            frame.terminated.copy(),
            frame.truncated.copy(),
            frame.signals.copy(),
        )

    def call(self, name: str, request: Any) -> Any:
        """Return the response of a unary method."""
        try:
            return self._transport.call(method(name), request)
        except Exception as error:
            return Failure.of(self._engine, name, error)

    def close(self) -> None:
        """End the engine."""
        if self._failure is None:
            self._env.close()
