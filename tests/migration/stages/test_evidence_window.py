"""What evidence counts for a method's next promotion."""

from __future__ import annotations

import time
from pathlib import Path

from lucky_transport_migration.evidence.record import Evidence, SideResult
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.stages.evidence_window import recent_evidence

METHOD = "/hazel.rpc.SceneService/GetEntity"
DAY_S = 86_400


def test_an_aa_run_tells_for_some_days_what_noise_is_and_then_no_more(tmp_path: Path) -> None:
    now = time.time()
    sides = SideResult("grpc", us=400.0), SideResult("grpc", us=410.0)
    moments = [moment(now - days * DAY_S) for days in (20, 6.9, 0.1)]
    written = [Evidence(METHOD, "shadow", *sides, kind="aa", verdict="equal", at=at) for at in moments]
    (tmp_path / "calls-1.jsonl").write_text("".join(one.write() for one in written))
    assert [one.at for one in recent_evidence(tmp_path)] == moments[1:]
    assert [one.at for one in recent_evidence(tmp_path, 30)] == moments
    assert [one.at for one in recent_evidence(tmp_path, 1)] == moments[2:]


def test_live_evidence_counts_whatever_its_age(tmp_path: Path) -> None:
    """A method that was not moved since stays judged by what was seen of it."""
    old = Evidence(METHOD, "shadow", SideResult("grpc"), SideResult("shm"), verdict="equal", at=moment(0))
    (tmp_path / "calls-1.jsonl").write_text(old.write())
    assert list(recent_evidence(tmp_path)) == [old]
