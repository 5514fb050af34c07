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
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout, TransportError, from_wire, to_wire_error
from lucky_transport.messages.methods import METHODS, method

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
    """An engine and the transport to it. Every method returns its result or a `Failure`.

    The constructor starts nothing: an actor that is killed before `start` leaves nothing behind.
    """

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
        self._arguments: dict[str, Any] = {
            "num_envs": num_envs,
            "seed": seed,
            "options": options,
            "transport": transport,
            "step_timeout_s": step_timeout_s,
            "endpoint": "",  # whatever the program's own is
        }
        self._env: VectorEnv | None = None

    def place(self) -> str:
        """Return where the actor runs."""
        return f"pid {os.getpid()} on {os.uname().nodename}"

    def start(self) -> tuple[str, list[str]] | Failure:
        """Start the engine; return its spec as JSON and the names of the methods it answers."""
        try:
            self._env = api.make(self._engine, **self._arguments)
            self._transport = self._env.transport
            answered = [row.name for row in METHODS if self._transport.implements(row) is not False]
            return self._transport.spec.to_json(), answered
        except Exception as error:
            return self._failure("the start of its engine", error)

    def step(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> FrameArrays | Failure:
        """Do one exchange."""
        try:
            frame = self._transport.step(actions, control)
        except Exception as error:
            return self._failure("a step", error)
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
            return self._failure(name, error)

    def close(self) -> None:
        """End the engine. Idempotent."""
        if self._env is not None:
            self._env.close()

    def _failure(self, what: str, error: Exception) -> Failure:
        """Return the failure for `error`. What a lost engine leaves is removed first: the client kills this actor."""
        failure = Failure.of(self._engine, what, error)
        if failure.is_lost:
            self.close()
        return failure
