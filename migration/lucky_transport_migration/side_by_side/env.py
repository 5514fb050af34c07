"""The env a test gets: one to the test, several to the engines."""

from __future__ import annotations

from lucky_transport.env import VectorEnv
from lucky_transport.services import Client

__all__ = ["ComparedEnv"]


class ComparedEnv(VectorEnv):
    """A VectorEnv whose engine can be asked as well: `client` has the typed calls, over the same transport."""

    @property
    def client(self) -> Client:
        """Typed services of the engine that this env steps; it ends with the env."""
        return Client(self.transport)
