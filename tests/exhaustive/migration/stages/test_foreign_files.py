"""A migration's files that another user made or may write: refused by name, neither obeyed nor appended to.

Run it as root: a second user makes the other user's files.
"""

import logging
from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.jsonl import open_to_append
from lucky_transport_migration.stages.decision import LOOK_EVERY_S, Decider
from lucky_transport_migration.stages.effective_stages import EffectiveStages
from lucky_transport_migration.stages.journal import Journal
from lucky_transport_migration.stages.stage import Placement, Stage
from lucky_transport_migration.stages.stage_plan import StagePlan, find_file
from tests.support.foreign_files import MakeForeignFile, foreign_uid

_METHOD = "/hazel.rpc.SceneService/GetEntity"
_SHM = '[stages]\ndefault = "shm"\n'


def test_stages_that_another_user_plants_above_a_project_are_not_found(
    shared: Path, make_foreign_file: MakeForeignFile
) -> None:
    make_foreign_file(shared / "lucky_transport.toml", "file", _SHM.encode())
    project = shared / "project"
    project.mkdir()
    assert find_file(project) == project / "lucky_transport.toml"
    assert StagePlan.load(project).default == Placement(Stage.GRPC)
    with pytest.raises(ConfigError, match=f"{shared}/lucky_transport.toml belongs to user {foreign_uid()}"):
        StagePlan.load(shared)


def test_a_journal_and_evidence_of_another_user_are_refused_by_name(
    shared: Path, make_foreign_file: MakeForeignFile
) -> None:
    journal, evidence = Journal(shared), shared / "calls-1.jsonl"
    for path in (journal.path, evidence):
        make_foreign_file(path, "file")
    with pytest.raises(ConfigError, match=f"{journal.path} belongs to user {foreign_uid()}"):
        journal.demotions()
    with pytest.raises(ConfigError, match=f"{evidence} belongs to user {foreign_uid()}"):
        list(read_folder(shared))
    with pytest.raises(OSError, match=f"{evidence} belongs to user {foreign_uid()}"):
        open_to_append(evidence)


@pytest.mark.parametrize("mode", [0o666, 0o606])
def test_a_journal_that_others_may_write_is_refused_by_name(mode: int, tmp_path: Path) -> None:
    (tmp_path / "lucky_transport.toml").write_text('[stages]\nevidence = "."\n')
    journal = Journal(tmp_path)
    journal.demote(_METHOD, Placement(Stage.SHM), Placement(Stage.GRPC), "differs")
    journal.path.chmod(mode)
    with pytest.raises(ConfigError, match=f"{journal.path} belongs to .*{mode:04o}.*chmod go-w"):
        EffectiveStages.load(tmp_path)


def test_a_journal_that_others_may_write_from_now_on_moves_no_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lucky_transport.toml").write_text(f'{_SHM}evidence = "."\n')
    monkeypatch.chdir(tmp_path)
    now = [0.0]
    decider = Decider(clock=lambda: now[0])
    assert decider.decide(_METHOD).primary == "shm"
    journal = Journal(tmp_path)
    journal.demote(_METHOD, Placement(Stage.SHM), Placement(Stage.GRPC), "planted")
    journal.path.chmod(0o666)
    now[0] += LOOK_EVERY_S * 2
    with caplog.at_level(logging.WARNING):
        assert decider.decide(_METHOD).primary == "shm"
    assert f"stages stay as they were: {journal.path} belongs to" in caplog.text
