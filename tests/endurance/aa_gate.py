"""A/A runs over real gRPC: what the gate makes of a candidate that is the control itself.

    python -m tests.endurance.aa_gate --runs 100

Each run starts an engine behind a gRPC server and steps nothing: a program makes `calls` reads over the staged
transport, whose candidate is a second gRPC connection to the same server. Nothing differs, so the gate should let all
methods move on and no call should send one back; what it does instead is counted. Exit code 0 unless a method was
demoted.
"""

import tempfile
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.messages import GetJointStateRequest, ListEntitiesRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess
from lucky_transport_migration.gate.gate_verdict import GateVerdict, judge
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from lucky_transport_migration.stages.evidence_window import recent_evidence
from lucky_transport_migration.stages.journal import Journal

#: Reads without a field to vary: each call is a trial.
READS = (
    (method("MujocoService/GetJointState"), GetJointStateRequest()),
    (method("SceneService/ListEntities"), ListEntitiesRequest()),
)
_STAGES = '[stages]\ndefault = "{stage}"\n[stages.methods]\n"AgentService/Step" = "grpc"\n'


def _run(endpoint: str, calls: int, stage: str) -> tuple[GateVerdict, int]:
    """Return the verdict on the methods of one run, and how many of them were demoted."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        project = Path(folder)
        (project / "lucky_transport.toml").write_text(_STAGES.format(stage=stage))
        policy = EvidencePolicy(project, tell=lambda line: None)
        router = ProcessRouter(policy)
        connect = partial(api.open_transport, endpoint)
        control, candidate = RoutedConnection("grpc", connect), RoutedConnection("shm", connect)
        staged = stack.enter_context(StagedTransport(control, candidate, router))
        for _ in range(calls):
            for row, request in READS:
                staged.call(row, request, Deadline(10.0))
                router.workers.drain(Deadline(10.0))  # a shadow beside the next call would take 1.3 times as long
        router.close()
        limits = Limits.load(project)
        seen = recent_evidence(project / "lucky-evidence", limits.aa_days)
        names = [row.name for row, _ in READS]
        verdict = judge((one for one in seen if one.method in names), limits)
        return verdict, len(Journal(project / "lucky-evidence").demotions())


@click.command(help=__doc__)
@click.option("--runs", type=click.IntRange(1), default=100, show_default=True)
@click.option("--calls", type=click.IntRange(1), default=1_500, show_default=True, help="Of each method, in each run.")
@click.option("--stage", default="shadow", show_default=True, help="Where the methods are meanwhile.")
def main(runs: int, calls: int, stage: str) -> None:
    """Judge, and print what was found."""
    found: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    process = EngineProcess("toy", ["grpc://127.0.0.1:0"])
    try:
        with click.progressbar(range(runs), label="A/A runs") as bar:
            for _ in bar:
                verdict, demoted = _run(str(process.endpoints[0]), calls, stage)
                found["promoted" if verdict.promote else "held back"] += 1
                found["methods demoted"] += demoted
                reasons.update(verdict.reasons)
    finally:
        process.stop()
    for reason, count in reasons.most_common():
        click.echo(f"{count:>4}  {reason}")
    click.echo(
        f"{runs} A/A runs of {len(READS)} methods with {calls:,} calls each: {found['promoted']} promoted, "
        f"{found['held back']} held back, {found['methods demoted']} methods demoted"
    )
    if found["methods demoted"]:
        raise click.ClickException("a method was demoted though nothing differs")


if __name__ == "__main__":
    main()
