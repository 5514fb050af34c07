"""The part of the pytest plugin that only a session with `--lucky-between` has: engines side by side, and the summary.

A difference fails the test itself, in its own phase, as an assertion would. What a test compared travels in its report,
so worker processes need nothing of their own.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.call_counts import Calls, read
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, TransportError, plural
from lucky_transport.process import unique_name
from lucky_transport.registry import load, registry
from lucky_transport.transport import Transport
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.paths import ConnectedEngine, find_path
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts, Mismatch
from lucky_transport_migration.side_by_side.tee_transport import SideBySideTransport

MARKER = "lucky"
PROPERTY = "lucky_transport"
OVER_SHM = "lucky_transport calls over shm"

#: What to do where calls stayed on gRPC.
REMEDY = (
    "Have the fixture that starts the server ask for lucky_grpc, so that it is made anew for each transport; make the "
    "channel by grpc.insecure_channel(...) once the server has started, not by a name that was imported from grpc."
)

Factory = Callable[..., Engine]


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a test. Each transport gets one of its own, with the same seed and options.

    engine: a registered "name" or "name:variant", a function, or "module:function", which is called once per transport
    with `num_envs`, `seed` and `options`. endpoints: of engines that run already, by transport; the team pairs them.
    """

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


class SwitchedGrpc:
    """gRPC of a test process over shared memory, for each test whose `lucky_grpc` is "shm".

    What such a test and its fixtures make, channels and servers, of grpc and grpc.aio, goes over shared memory where
    its address is one of this host, and so do those of the processes that they start. A server stays reachable over
    gRPC: what no server of these processes serves in shared memory, such as an emulator, is called as always. The
    switch of a session is made once: a server of one test is found by the channels of the next one.

    Raises MissingExtra without grpcio.
    """

    def __init__(self) -> None:
        make = load("lucky_transport_stubs.run.here:switch_here", owner="the fixture lucky_grpc", extra="grpc")
        self._calls_on_grpc = load("lucky_transport_stubs.run.here:calls_on_grpc", owner="the fixture lucky_grpc")
        pair = f"localhost:*=shm://{unique_name()}_{{port}}"
        settings = {"transport": "auto", "grpc_map": pair, "grpc_serve": pair, "grpc_serve_only": False}
        self._folder = TemporaryDirectory(prefix="lucky-grpc-", ignore_cleanup_errors=True)
        #: Switches this process for a while; raises ConfigError where it is switched already.
        self.switched: Callable[[], AbstractContextManager[None]] = make(
            load_settings(settings), Path(self._folder.name)
        )

    def close(self) -> None:
        """Remove the counts."""
        self._folder.cleanup()

    def counts(self) -> Counter[Calls]:
        """Return how often each method was called so far, by its callers and as its servers saw it, and each channel of
        gRPC's own in this process: one that was made before the switch counts nothing itself.
        """
        found = Counter[Calls]()
        switched = (one for process in read(Path(self._folder.name)) for one in process.calls)
        for one in (*switched, *self._calls_on_grpc()):
            found[replace(one, count=0)] += one.count
        return found

    def since(self, before: Counter[Calls]) -> tuple[int, str]:
        """Return the calls over shared memory since `before`, and why all stayed on gRPC; "" where they did not."""
        made = Counter({one: count for one, count in (self.counts() - before).items() if one.method})
        over_shm = sum(count for one, count in made.items() if one.endpoint and one.role == "client")
        stayed = {one: count for one, count in made.items() if not one.endpoint}
        if over_shm or not stayed:
            return over_shm, ""
        one = min(stayed, key=lambda call: ("client", "server", "channel").index(call.role))
        count = sum(stayed[other] for other in stayed if other.role == one.role)
        return 0, f"{plural(count, 'call')} went over gRPC, none over shared memory ({one.target}: {one.why})\n{REMEDY}"


class Hooks:
    """Registered with pytest. between: the paths compared, the baseline first. Raises ConfigError for wrong rules."""

    def __init__(self, between: Sequence[str]) -> None:
        self.between = tuple(between)
        self.running_counts: dict[str, ComparisonCounts] = {}  # of running tests, by node id
        self._switch: SwitchedGrpc | None = None  # from the first test on whose lucky_grpc is "shm"
        self._switched = ExitStack()
        self._over_shm: list[int] = []  # calls of each test that had it
        self._rules = ComparisonRules.load()
        self._sum = ComparisonCounts()

    @contextmanager
    def opened(
        self, engines: Engines, counts: ComparisonCounts, between: Sequence[str] = (), **env: Any
    ) -> Generator[VectorEnv]:
        """Yield one env that steps an engine per transport; its first difference raises Mismatch, and so does all that
        is done with it afterwards.
        """
        with ExitStack() as stack:
            members = {name: engines.open(name, stack) for name in between or self.between}
            tee = SideBySideTransport(members, self._rules, counts)
            yield stack.enter_context(VectorEnv(tee, **env))

    @contextmanager
    def side_by_side(
        self, engines: Engines, counts: ComparisonCounts, between: Sequence[str] = (), **env: Any
    ) -> Generator[VectorEnv]:
        """Yield the env as `opened`; a difference that the test swallowed is raised behind it."""
        with self.opened(engines, counts, between, **env) as made:
            yield made
            if isinstance(made.transport, SideBySideTransport) and made.transport.mismatch is not None:
                raise made.transport.mismatch

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        refused: TransportError | None = None
        if _is_over_shm(item):
            try:
                self._switch = self._switch or SwitchedGrpc()
                self._switched.enter_context(self._switch.switched())
            except TransportError as error:
                refused = error
        result = yield
        if refused is not None:  # not before: other plugins rely on each other's part in this
            raise refused
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        with self._switched:
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        switch = self._switch if _is_over_shm(item) else None
        before = None if switch is None else switch.counts()
        result = yield from _to_the_point()
        if switch is not None and before is not None:
            over_shm, stayed = switch.since(before)
            if stayed:
                pytest.fail(stayed, pytrace=False)
            item.user_properties.append((OVER_SHM, over_shm))
        counts = self.running_counts.get(item.nodeid)
        if counts is not None and counts.differences:
            pytest.fail("\n".join(["the test went on after a difference", *counts.differences]), pytrace=False)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, plain in report.user_properties:
                if name == PROPERTY and isinstance(plain, dict):
                    self._sum.merge(plain)
                elif name == OVER_SHM and isinstance(plain, int):
                    self._over_shm.append(plain)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a session for a difference that no test failed of, and where nothing went over shared memory."""
        if self._switch is not None:
            self._switch.close()
        nothing = bool(self._over_shm) and not any(self._over_shm)
        if (self._sum.differences or nothing) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        found = self._sum
        if self._over_shm:
            calls, tests = sum(self._over_shm), plural(len(self._over_shm), "test")
            terminalreporter.section("lucky_transport: gRPC services over shared memory")
            if calls:
                terminalreporter.line(f"{plural(calls, 'call')} over shared memory in {tests}", green=True)
            else:
                terminalreporter.line(f"NOTHING went over shared memory in {tests}: {REMEDY}", red=True)
        if not found.tests:
            return
        terminalreporter.section(f"lucky_transport: {' and '.join(self.between)} side by side")
        tests = plural(found.tests, "test")
        if found.differences:
            terminalreporter.line(f"DIFFERENT: {len(found.differences)} of {tests}", red=True)
        elif found.events:
            terminalreporter.line(f"EQUAL: {found.sentence} in {tests}", green=True)
        else:
            terminalreporter.line(f"NOTHING was compared in {tests}", yellow=True)
        for sentence in found.differences:
            terminalreporter.line(f"differs: {sentence}")
        for what, why in found.not_compared.items():
            terminalreporter.line(f"not compared: {what} ({why})")


def _is_over_shm(item: pytest.Item) -> bool:
    """True for the run of a test whose gRPC goes over shared memory."""
    return getattr(getattr(item, "callspec", None), "params", {}).get("lucky_grpc") == "shm"


def _to_the_point() -> Generator[None, Any, Any]:
    """Wait for a test; of a difference it found, show its own line, and nothing of how we were called by it."""
    try:
        return (yield)
    except Mismatch as mismatch:
        trace = last = mismatch.__traceback__
        while trace is not None:
            if not trace.tb_frame.f_globals.get("__name__", "").startswith("lucky_transport"):
                last = trace
            trace = trace.tb_next
        if last is not None:
            last.tb_next = None
        raise


def engines_of(item: pytest.Item, arguments: Mapping[str, Any]) -> tuple[Engines, dict[str, Any]]:
    """Return the engines that a test names, by arguments before its markers before the configuration, and the arguments
    that are left for the env.

    Raises pytest.UsageError for a wrong line of the configuration.
    """
    named: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        named |= {**dict(zip(("engine",), marker.args, strict=False)), **marker.kwargs}
    named |= {name: value for name, value in arguments.items() if value is not None}
    if not named.get("engine") and not named.get("endpoints"):
        config = item.config
        named["endpoints"] = _endpoints(config.getini("lucky_endpoints"))
        named["engine"] = config.getoption("--lucky-engine") or config.getini("lucky_engine")
    ours = {name: named.pop(name) for name in Engines.__dataclass_fields__ if name in named}
    return Engines(**ours), named


def _endpoints(lines: list[str]) -> dict[str, str]:
    pairs = [line.partition("=") for line in lines if line.strip()]
    for name, equals, url in pairs:
        if not (name.strip() and equals and url.strip()):
            raise pytest.UsageError(f"lucky_endpoints: {name!r}; write lines like grpc = grpc://127.0.0.1:50051")
    return {name.strip(): url.strip() for name, _, url in pairs}
