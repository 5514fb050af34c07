"""The engine of tests that change one thing that an engine does."""

from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.engines.toy import ToyEngine


class ScriptedEngine(ToyEngine):
    """A toy engine with hooks, which may be set later: on_step(control) comes before each step.

    services, streams, call_handlers: what it offers beside the toy's own.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        on_step: Callable[[Any], object] = lambda control: None,
        on_leave: Callable[[str], object] = lambda caller: None,
        on_close: Callable[[], object] = lambda: None,
        services: Mapping[str, Any] | None = None,
        streams: Mapping[str, Any] | None = None,
        call_handlers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_envs, **options)
        self.on_step, self.on_leave, self.on_close = on_step, on_leave, on_close
        self._offers = (services or {}, streams or {}, call_handlers or {})

    @property
    def services(self) -> Mapping[str, Any]:
        return {**super().services, **self._offers[0]}

    @property
    def streams(self) -> Mapping[str, Any]:
        return {**super().streams, **self._offers[1]}

    @property
    def call_handlers(self) -> Mapping[str, Any]:
        return self._offers[2]

    def step(self, control: Any) -> None:
        self.on_step(control)
        super().step(control)

    def leave(self, caller: str) -> None:
        self.on_leave(caller)

    def close(self) -> None:
        self.on_close()
