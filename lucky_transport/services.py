"""Typed service clients over any transport, derived from the table of methods.

    client = lucky_transport.connect("shm://lucky_demo")
    client.agent.get_agent_schema().schema.observation_size
    client.mujoco.get_joint_state(robot_name="agent_0").state.positions

Rule 1: nothing is written by hand per method; a row in `messages/methods.py` is a callable here.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lucky_transport.deadline import Deadline
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport.specs import BatchSpec
from lucky_transport.transport import Transport

__all__ = ["Client", "Service"]


class Service:
    """The methods of one service as attributes: `service.method_name(field=value, ..., timeout_s=None)`."""

    def __init__(self, transport: Transport, name: str, methods: dict[str, Method]) -> None:
        self._transport = transport
        self._name = name
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        found = self._methods.get(name)
        if found is None:
            raise AttributeError(f"{self._name} has no method {name!r}; it has: {', '.join(sorted(self._methods))}")

        def call(*, timeout_s: float | None = None, **fields: Any) -> Any:
            deadline = None if timeout_s is None else Deadline(timeout_s)
            return self._transport.call(found, found.request(**fields), deadline)

        call.__name__ = name
        call.__doc__ = found.request.__doc__
        return call

    def __dir__(self) -> list[str]:
        return sorted(self._methods)


class Client:
    """A connection with one attribute per service (`agent`, `mujoco`, `batch`); `transport` steps the batch."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        groups: dict[str, dict[str, Method]] = {}
        for row in METHODS:
            short = row.service.rpartition(".")[2].removesuffix("Service")
            groups.setdefault(short.lower(), {})[row.python_name] = row
        self._services = {key: Service(transport, key, methods) for key, methods in groups.items()}

    @property
    def spec(self) -> BatchSpec:
        """The engine's batch spec."""
        return self.transport.spec

    def __getattr__(self, name: str) -> Service:
        services = self.__dict__.get("_services", {})
        if name not in services:
            raise AttributeError(f"no service {name!r}; there are: {', '.join(sorted(services))}")
        return services[name]

    def __dir__(self) -> list[str]:
        return sorted([*self._services, "close", "spec", "transport"])

    def close(self) -> None:
        """End the connection; idempotent."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
