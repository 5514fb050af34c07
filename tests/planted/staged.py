"""A program over `staged:` whose candidate is planted. The report is what its user is told, and the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.process import unique_name
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from lucky_transport_migration.stages.journal import Journal
from tests.planted.changes import connecting
from tests.planted.moving_engine import make_engine
from tests.planted.plugin import planted
from tests.planted.tools import NUM_ENVS, SEED, Report, call_and_stream

__all__ = ["staged"]

_PATIENCE_S = 60.0


class _WaitsForShadows:
    """Makes calls over a staged transport, and lets the shadow of each end before the next one."""

    def __init__(self, transport: StagedTransport, router: ProcessRouter) -> None:
        self._transport = transport
        self._router = router

    def call(self, *arguments: Any) -> Any:
        try:
            return self._transport.call(*arguments)
        finally:
            self._router.workers.drain(Deadline(_PATIENCE_S))

    def stream(self, *arguments: Any) -> Any:
        self._router.workers.drain(Deadline(_PATIENCE_S))
        return self._transport.stream(*arguments)


def staged(folder: Path) -> Report:
    """Typed calls and streams, each read made over a planted candidate too; status: whether one differed."""
    (folder / "lucky_transport.toml").write_text('[stages]\ndefault = "shadow"\n')
    told: list[str] = []
    router = ProcessRouter(EvidencePolicy(folder, tell=told.append, metrics=Metrics(CollectorRegistry())))
    with api.serve(make_engine("", NUM_ENVS, seed=SEED), f"inproc://{unique_name()}") as serving:
        endpoint = str(serving.endpoints[0])
        sides = (
            RoutedConnection(CONTROL, connecting(endpoint)),
            RoutedConnection(CANDIDATE, connecting(endpoint, planted)),
        )
        with StagedTransport(*sides, router) as transport:
            call_and_stream(_WaitsForShadows(transport, router))
            router.workers.drain(Deadline(_PATIENCE_S))
        router.close()
    seen = list(read_folder(folder / "lucky-evidence"))
    bad = {one.method for one in seen if one.verdict in ("different", "failed")}
    assert {one.method for one in Journal(folder / "lucky-evidence").entries()} == bad, "just these fall back"
    lines = (f"{one.verdict} {one.method}: {one.sentence or one.why}; {', '.join(one.left_out)}" for one in seen)
    return Report(int(bool(bad)), "\n".join([*told, *lines]))
