"""Where the engines of a test come from: a name, a function that makes one, or endpoints of engines that run already.

    Engines("mujoco:quadruped", num_envs=4, seed=1)                    one engine process per transport
    Engines("my_team.engines:make_arm", num_envs=4, seed=1)            make_arm(num_envs=4, seed=1), once per transport
    Engines(endpoints={"grpc": "grpc://127.0.0.1:50051", "shm": "shm://arm"})

Each transport gets an engine of its own, with the same seed and options; engines that run already are the team's to
pair. What was started here ends with the stack it was opened on.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.errors import ConfigError
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.transport import Transport
from lucky_transport_migration.paths import ConnectedEngine, find_path

Factory = Callable[..., Engine]


@dataclass(frozen=True, slots=True)
class Engines:
    """`engine`: a registered "name" or "name:variant", a function, or "module:function". `endpoints`: by transport."""

    engine: str | Factory = ""
    num_envs: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])

    def open(self, name: str, stack: ExitStack) -> Transport:
        """Return a client of this test's engine over the path `name` (see paths.py); `stack` ends both.

        Raises ConfigError where there is no engine, and what finding, starting and connecting raises.
        """
        if self.endpoints:
            if name not in self.endpoints:
                raise ConfigError(
                    f"no endpoint for {name!r}; there are: {', '.join(self.endpoints)}", hint="name one per transport"
                )
            return stack.enter_context(closing(api.open_transport(self.endpoints[name])))
        if not self.engine:
            raise ConfigError(
                "no engine to compare",
                hint="pass one ('mujoco:quadruped', a function that makes one), set lucky_engine in the pytest "
                "configuration, or endpoints of engines that run already",
            )
        factory = self._factory()
        if factory is None:
            link = ConnectedEngine(
                find_path(name), str(self.engine), self.num_envs, seed=self.seed, options=self.options
            )
            return stack.enter_context(link).transport
        return self._serve(name, factory, stack)

    def _factory(self) -> Factory | None:
        """Return the function that makes the engine; None for one that the registry knows."""
        if callable(self.engine):
            return self.engine
        module, _, attribute = self.engine.partition(":")
        if module in registry().engines or not attribute:
            return None
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"engine {self.engine!r}: {error}",
                hint=f"name a function as 'module:function', or one of {', '.join(sorted(registry().engines))}",
            ) from error

    def _serve(self, name: str, factory: Factory, stack: ExitStack) -> Transport:
        """Serve what a function makes, in this process."""
        path = find_path(name)
        engine = factory(num_envs=self.num_envs, seed=self.seed, **self.options)
        endpoint = registry().transport(path.transport).local_endpoint.format(name=unique_name())
        served = stack.enter_context(api.serve(engine, endpoint)).endpoints[0]
        found = Endpoint(served.scheme, served.address, served.options + path.options)
        return stack.enter_context(closing(api.open_transport(found, load_settings())))
