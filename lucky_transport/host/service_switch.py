"""Which services an engine answers, and how many items a second its streams give: changed while it runs.

    switch.change(on=["CameraService"], off=["*Lidar*"], fps={"CameraService/StreamCamera": 10})

The host asks here for each call of a client, whatever transport it came by. Steps never do: BatchService cannot be
switched off, and an AgentService that is off still answers Step and ResetAgent. What the engine's own process asks of
its engine is not affected.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from lucky_transport.call import Call
from lucky_transport.errors import ClosedError, ConfigError, Unimplemented, UnknownName, did_you_mean
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.messages.method import is_pattern, matches
from lucky_transport.messages.methods import METHODS, Method

#: What the text of each refusal says.
SWITCHED_OFF = "is switched off"

_STEPS = frozenset(f"/hazel.rpc.AgentService/{name}" for name in ("Step", "ResetAgent"))
#: It carries the steps of envs over gRPC.
_ALWAYS = "lucky_transport.v1.BatchService"
_KNOWN = frozenset(row.service for row in METHODS)
#: How long a stream that its limit holds back overlooks a change of the limit.
_SLICE_S = 0.1


class ServiceSwitch:
    """The services and streams of one engine. methods: those that it answers.

    command: what changes them from a shell, up to the options; "" where no command reaches this process.
    refused: the full names of the methods that are answered no more.
    """

    def __init__(self, engine: str, methods: Iterable[Method]) -> None:
        self.command = ""
        self.refused: frozenset[str] = frozenset()
        self._engine = engine
        self._methods = {row.name: row for row in methods}
        self._services = sorted({row.service for row in self._methods.values()})
        self._off: frozenset[str] = frozenset()
        self._is_closed = False
        self._limits: dict[str, float] = {}
        self._running: dict[Call, str] = {}
        self._watchers: list[Callable[[], None]] = []
        self._lock = threading.RLock()

    @property
    def services(self) -> dict[str, bool]:
        """The full names of the services, and whether each is on."""
        return {name: name not in self._off for name in self._services}

    @property
    def streams(self) -> dict[str, float]:
        """The full names of the streams, and the most items a second that each gives; 0 for no limit."""
        return {row.name: self._limits.get(row.name, 0.0) for row in self._methods.values() if row.stream is not None}

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed()` called after each change; it must not block."""
        self._watchers.append(changed)

    def choose(self, only: Iterable[str], without: Iterable[str], fps: Mapping[str, float]) -> None:
        """Begin with `only` these services, all where there is none, but `without` those. Raises as `change` does."""
        kept = {name for text in only for name in self._find(text, self._services)}
        others = [name for name in self._services if kept and name not in kept and name != _ALWAYS]
        self.change(off=[*without, *others], fps=fps)

    def change(
        self, *, on: Iterable[str] = (), off: Iterable[str] = (), fps: Mapping[str, float] | None = None
    ) -> None:
        """Switch services on and off, by full name, short name or pattern, and limit streams.

        fps: a stream's name, a pattern or a service's name -> items a second at most, 0 for no limit; a client that
        asks for fewer gets fewer. Running streams follow; those of a service that is off end with Unimplemented. Calls
        under way are answered.

        Raises UnknownName with the nearest names, ConfigError for a service that carries steps, one that is switched
        both ways, and a limit that is no number >= 0. Nothing has changed then. ClosedError after `close`.
        """
        added = {name for text in on for name in self._find(text, self._services)}
        removed = {name for text in off for name in self._find_off(text)}
        if both := added & removed:
            raise ConfigError(f"{', '.join(sorted(both))} cannot be switched on and off at once", backend=self._engine)
        limits = {name: float(hz) for text, hz in (fps or {}).items() for name in self._find_streams(text, hz)}
        with self._lock:
            if self._is_closed:
                raise self._closed()
            self._limits = {name: hz for name, hz in (self._limits | limits).items() if hz}
            self._off = (self._off - added) | (removed & set(self._services))
            named = (name for name, row in self._methods.items() if row.service in self._off)
            self.refused = frozenset(named) - _STEPS
            for changed in self._watchers:
                run_unwaited("what follows a change of services", changed)
        self._end_refused()

    def close(self) -> None:
        """Answer nothing any more: the engine ends. Running streams end with ClosedError."""
        with self._lock:
            self._is_closed = True
            self.refused = frozenset(self._methods)
        self._end_refused()

    def _end_refused(self) -> None:
        """End the streams that run and are refused."""
        for call, name in self._running.copy().items():
            if name in self.refused:
                call.end()

    def _closed(self) -> ClosedError:
        return ClosedError("the engine is closing", backend=self._engine)

    def check(self, method: Method) -> None:
        """Raise Unimplemented, with the way to switch it on, where the method's service is off; ClosedError after
        `close`.
        """
        if method.name in self.refused:
            if self._is_closed:
                raise self._closed()
            short = _short(method.service)
            how = f"{self.command} --on {short}" if self.command else f"Serving.host.switch.change(on=[{short!r}])"
            raise Unimplemented(
                f"engine {self._engine!r} does not answer {method.name}: {short} {SWITCHED_OFF}",
                backend=self._engine,
                hint=f"its user switches it on: {how}",
            )

    def stream(self, method: Method, call: Call, start: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """Yield what the stream yields, no faster than its limit, until its service is switched off."""
        self._running[call] = method.name  # first: a change that comes now finds it
        try:
            self.check(method)
            items, due = iter(start()), 0.0
            try:
                for item in items:
                    self.check(method)
                    due = due or time.monotonic()
                    yield item
                    due = self._hold(method, call, due)
            finally:
                if (close := getattr(items, "close", None)) is not None:
                    close()
        except Exception:  # what a handler raises that the change has ended is of no interest
            self.check(method)
            raise
        finally:
            self._running.pop(call, None)
        self.check(method)

    def _hold(self, method: Method, call: Call, due: float) -> float:
        """Wait until the limit allows the next item, and return when that was; its reader is not late by such a wait.

        due: when the limit allowed the last one.
        """
        began = time.monotonic()
        while hz := self._limits.get(method.name):
            left_s = due + 1 / hz - time.monotonic()
            if left_s <= 0 or not call.wait(min(left_s, _SLICE_S)):
                break
        call.held_s += time.monotonic() - began
        return max(due + 1 / hz, began) if hz else began

    # -- names --------------------------------------------------------------------------------------------------------

    def _find_off(self, text: str) -> list[str]:
        found = self._find(text, _KNOWN | set(self._services))
        if found == [_ALWAYS] and not is_pattern(text):
            raise ConfigError(
                f"{text} cannot be switched off: it carries the steps of envs over gRPC",
                backend=self._engine,
                hint="stop the engine, or serve it at no grpc:// endpoint",
            )
        return [name for name in found if name != _ALWAYS]

    def _find(self, text: str, known: Iterable[str]) -> list[str]:
        """Return the services that a name or pattern stands for."""
        found = [name for name in sorted(known) if _is_service(name, text)]
        if not found:
            raise self._unknown("service", text, [_short(name) for name in known])
        return found

    def _find_streams(self, text: str, hz: Any) -> list[str]:
        if isinstance(hz, bool) or not isinstance(hz, int | float) or not 0 <= hz < math.inf:
            raise ConfigError(f"{text}={hz!r}", backend=self._engine, hint="write items a second, 0 for no limit")
        found = [name for name in self.streams if matches(name, text) or _is_service(self._methods[name].service, text)]
        if not found:
            raise self._unknown("stream", text, [name.rpartition(".")[2] for name in self.streams])
        return found

    def _unknown(self, kind: str, text: str, known: Iterable[str]) -> UnknownName:
        names = sorted(set(known))
        nearest = did_you_mean(text, names)
        verb = "fits" if is_pattern(text) else "is called"
        return UnknownName(
            f"no {kind} of engine {self._engine!r} {verb} {text!r}",
            backend=self._engine,
            hint=f"{nearest}its {kind}s: {', '.join(names) or 'none'}",
        )


def _short(service: str) -> str:
    return service.rpartition(".")[2]


def _is_service(name: str, text: str) -> bool:
    return fnmatchcase(name, text) or fnmatchcase(_short(name), text)
