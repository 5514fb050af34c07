"""A project with stages in a folder of its own, policies by its file, and answers of both transports to one call."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import Evidence, read_folder
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.stages.journal import Entry, Journal


@pytest.fixture(autouse=True)
def _stages_as_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUCKY_TRANSPORT", raising=False)


@pytest.fixture
def both() -> Callable[..., Comparison]:
    """Return `_both`."""
    return _both


def _both(
    primary: Any,
    shadow: Any,
    *,
    method: str = "/hazel.rpc.MujocoService/GetJointState",
    stage: str = "shadow",
    ended_early: bool = False,
    why: str = "",
) -> Comparison:
    """Return a comparison of two answers, each given as items or as a whole outcome; the primary is gRPC, or shared
    memory from the canary on.
    """
    first, second = ("shm", "grpc") if stage.partition(" ")[0] in ("canary", "shm") else ("grpc", "shm")
    outcomes = [_outcome(given, name) for given, name in ((primary, first), (shadow, second))]
    decision = Decision(first, second if shadow is not None else "", stage)
    return Comparison(method, decision, *outcomes, why=why, ended_early=ended_early)


def _outcome(given: Any, transport: str) -> Any:
    if given is None or isinstance(given, CallOutcome):
        return given
    return CallOutcome(transport, given, took_us=100.0)


@dataclass
class Project:
    """A folder with a file of stages; `told` is what users of its policies read."""

    folder: Path
    told: list[str] = field(default_factory=list[str])
    policies: list[EvidencePolicy] = field(default_factory=list[EvidencePolicy])

    def write(self, stage: str = "shadow", rest: str = "") -> None:
        """Put every method at one stage."""
        text = f'[stages]\ndefault = "{stage}"\n{rest}\n'
        (self.folder / "lucky_transport.toml").write_text(text)

    def policy(self, **options: Any) -> EvidencePolicy:
        """Return a new policy."""
        options.setdefault("metrics", Metrics(CollectorRegistry()))
        policy = EvidencePolicy(self.folder, tell=self.told.append, **options)
        self.policies.append(policy)
        return policy

    @property
    def evidence(self) -> list[Evidence]:
        """What is written."""
        return list(read_folder(self.folder / "lucky-evidence"))

    @property
    def journal(self) -> list[Entry]:
        """What is in the journal."""
        return list(Journal(self.folder / "lucky-evidence").entries())


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Return a project whose methods are all at stage shadow."""
    made = Project(tmp_path)
    made.write()
    yield made
    for policy in made.policies:
        policy.close()


@pytest.fixture
def taken_port() -> Iterator[int]:
    """Return a port at which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def unused_port() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
