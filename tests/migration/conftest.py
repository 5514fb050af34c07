"""What tests of the migration share: recordings, and staged transports."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.engine import Engine
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport.transport import Transport
from lucky_transport_migration import paths
from lucky_transport_migration.bench import charts
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.parity import call_proof
from lucky_transport_migration.recording.entries import RecordedCall, Recording, Step, line_of
from lucky_transport_migration.recording.recorded_transport import recorded_endpoint
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from tests.planted.changes import Over, connecting
from tests.support.fixtures.migration_evidence import project
from tests.support.waiting import PATIENCE_S


@pytest.fixture(scope="module", autouse=True)
def engines_are_forks(forked_engines: None) -> None:
    """How an engine's process starts is tested in tests/core and tests/plugins."""


@pytest.fixture
def few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tenth of a stream's items compared: all of them take seconds to come."""
    monkeypatch.setattr(call_proof, "MOST_ITEMS", call_proof.MOST_ITEMS // 10)


@pytest.fixture
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pages say all but draw nothing, which takes a second each: the pages of other tests have their charts."""
    monkeypatch.setattr(charts, "charts", lambda result: iter(()))


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch, few_items: None) -> str:
    """Make "twin" a second name of the in-process transport, so that two members need no process."""
    monkeypatch.setitem(paths.NAMED, "twin", ("inproc", ()))
    return "twin"


Tree = Callable[[Mapping[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Write files, by their names in a new folder; return the folder."""
    pytest.importorskip("libcst", reason="the extra `migration` is not installed")

    def write(files: Mapping[str, str | bytes]) -> Path:
        root = tmp_path / "code"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        root.mkdir(exist_ok=True)
        return root

    return write


#: Serves a fresh engine and returns its endpoint.
Serve = Callable[..., str]


@pytest.fixture
def serve_toy(serve: Serve) -> Serve:
    return lambda num_envs=3, seed=7, engine="toy": serve(engine, num_envs, seed=seed, slots=300)


@pytest.fixture
def recording(serve_toy: Serve, tmp_path: Path) -> Recording:
    """Twenty steps with a seeded reset before them, three calls, a stream and a call that the toy does not know."""
    file = tmp_path / "run.jsonl"
    endpoint = str(recorded_endpoint(serve_toy(), file, seed=7))
    with lucky_transport.make(endpoint=endpoint) as env:
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in range(20):
            env.step(env.action_space.sample())
    with lucky_transport.connect(endpoint) as client:
        client.scene.list_entities()
        client.scene.list_entities(include_transforms=True)
        client.mujoco.get_joint_state(robot_name="agent_0")
        with client.agent.stream_policy_slot_state() as slots:
            assert len(list(slots)) == 300
        with pytest.raises(lucky_transport.errors.Unimplemented):
            client.scene.get_entity(name="nobody")
    return Recording(file)


@pytest.fixture
def changed(recording: Recording, tmp_path: Path) -> Callable[..., Recording]:
    """Return the recording with its entries changed by a function, in a file of its own."""

    def changed(change: Callable[[list[Any]], Sequence[Any]]) -> Recording:
        file = tmp_path / "changed.jsonl"
        entries = change(list(recording.entries()))
        file.write_text(line_of(recording.header) + "".join(map(line_of, entries)))
        return Recording(file)

    return changed


class FakePolicy:
    """Decides `decisions[method]`, else `default`; keeps what is noted."""

    def __init__(self, default: Decision, decisions: dict[str, Decision] | None = None) -> None:
        self.default = default
        self.decisions = decisions or {}
        self.notes: list[Any] = []
        self._news = threading.Condition()

    def decide(self, method: str) -> Decision:
        return self.decisions.get(method, self.default)

    def digest(self, method: str, decision: Decision) -> None:
        pass

    def note(self, comparison: Any) -> None:
        with self._news:
            self.notes.append(comparison)
            self._news.notify_all()

    def close(self) -> None:
        pass

    def wait_for(self, method: str, count: int = 1) -> list[Any]:
        """Return the notes on a method once there are so many; fails when they do not come."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.of(method)) >= count, PATIENCE_S), self.notes
            return self.of(method)

    def of(self, method: str) -> list[Any]:
        return [one for one in self.notes if one.method == method]


#: Makes one side's connection.
Connect = Callable[[], Transport]
#: Makes a staged transport: (policy, control endpoint, candidate endpoint).
Open = Callable[..., StagedTransport]


@pytest.fixture
def open_staged() -> Generator[Open]:
    """Yield a function that returns staged transports, closed at the end."""
    with ExitStack() as stack:

        def make(policy: Any, control: str | Connect, candidate: str | Connect) -> StagedTransport:
            sides = RoutedConnection("grpc", _connecting(control)), RoutedConnection("shm", _connecting(candidate))
            router = ProcessRouter(policy)
            stack.callback(router.close)
            return stack.enter_context(StagedTransport(*sides, router))

        yield make


@pytest.fixture
def serve() -> Generator[Callable[..., str]]:
    """Yield a function that serves an engine in this process and returns its endpoint, "inproc://name"."""
    with ExitStack() as stack:

        def start(engine: str | Engine = "toy", num_envs: int = 2, **options: Any) -> str:
            serving = api.serve(engine, f"inproc://{unique_name()}", num_envs=num_envs, options=options)
            stack.enter_context(serving)
            return str(serving.endpoints[0])

        yield start


def _connecting(where: str | Connect) -> Connect:
    return partial(api.open_transport, where) if isinstance(where, str) else where


@pytest.fixture
def stage(open_staged: Open, serve: Callable[..., str]) -> Callable[..., tuple[FakePolicy, StagedTransport]]:
    """Return a function that makes a policy and a staged transport: (decision, changes of what the candidate brings).

    Both sides are one toy with `options`, but where another candidate is given. others: decisions by method.
    """

    def make(
        decision: Decision, *changes: Over, others: Any = None, candidate: Any = None, **options: Any
    ) -> tuple[FakePolicy, StagedTransport]:
        endpoint, policy = serve("toy", **options), FakePolicy(decision, others)
        return policy, open_staged(policy, endpoint, candidate or connecting(endpoint, *changes))

    return make
