"""Decisions: the right roles, evenly spread shares, and stages that change while a program runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ConfigError
from lucky_transport.routing import Decision
from lucky_transport_migration.stages.decision import LOOK_EVERY_S, Decider
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH
from lucky_transport_migration.stages.journal import Journal
from lucky_transport_migration.stages.sampler import Sampler
from lucky_transport_migration.stages.stage import Placement

Write = Callable[[str], Path]

_READ, _WORLD = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.SceneService/SetEntityTransform"
_VIEW, _FOREIGN = "/hazel.rpc.DebugService/Draw", "/my.team.Robots/Grip"


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def passes(self) -> None:
        self.now += LOOK_EVERY_S + 0.01


def _everything(stage: str, extra: str = "") -> str:
    return f'[stages]\ndefault = "{stage}"\n{extra}'


@pytest.mark.parametrize(
    ("stage", "read", "world"),
    [
        ("grpc", Decision("grpc", "", "grpc"), Decision("grpc", "", "grpc")),
        ("shadow", Decision("grpc", "shm", "shadow"), Decision("grpc", "", "shadow")),
        ("shm", Decision("shm", "grpc", "shm"), Decision("shm", "", "shm")),
        ("complete", Decision("shm", "", "complete"), Decision("shm", "", "complete")),
    ],
)
def test_a_stage_says_who_answers_and_only_reads_have_a_shadow(
    write: Write, stage: str, read: Decision, world: Decision
) -> None:
    write(_everything(stage))
    decider = Decider()
    assert decider.decide(_READ) == read
    assert [decider.decide(name) for name in (_WORLD, _VIEW, _FOREIGN, STEP)] == [world] * 4


def test_a_canary_is_shared_memorys_turn_for_its_share_and_grpcs_else(write: Write) -> None:
    write(_everything("canary 10%"))
    decider = Decider()
    decisions = [decider.decide(_READ) for _ in range(1000)]
    assert decisions.count(Decision("shm", "grpc", "canary 10%")) == 100
    assert decisions.count(Decision("grpc", "shm", "canary 10%")) == 900


@given(share=st.floats(0, 1), start=st.floats(0, 1, exclude_max=True), calls=st.integers(1, 300))
def test_a_share_is_spread_evenly_wherever_it_starts(share: float, start: float, calls: int) -> None:
    spread = Sampler(share, start)
    turns = [spread() for _ in range(calls)]
    for length in (1, calls // 2 + 1, calls):
        for begin in (0, calls - length):
            assert abs(sum(turns[begin : begin + length]) - share * length) < 1 + 1e-6


def test_processes_that_make_one_call_each_have_their_share_together(write: Write) -> None:
    write(_everything("canary 10%"))
    deciders = [Decider(start=partial(float, number / 50)) for number in range(50)]
    assert [decider.decide(_READ).primary for decider in deciders].count("shm") == 5


def test_a_sample_of_the_reads_gets_a_shadow_in_both_parts_of_a_canary(write: Write) -> None:
    write(_everything("canary 50%", "sample = 0.5"))
    decider = Decider()
    decisions = [decider.decide(_READ) for _ in range(400)]
    for primary in ("grpc", "shm"):
        shadowed = [bool(one.shadow) for one in decisions if one.primary == primary]
        assert (len(shadowed), sum(shadowed)) == (200, 100)


def test_no_sample_is_no_shadow(write: Write) -> None:
    write(_everything("shadow", "sample = 0"))
    assert Decider().decide(_READ) == Decision("grpc", "", "shadow")


# while it runs


def test_a_change_of_the_file_is_followed_without_looking_all_the_time(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    write(_everything("grpc"))
    decider = Decider(clock=clock)
    looks: list[Path] = []
    look = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **options: (looks.append(path), look(path, **options))[1])
    write(_everything("shm"))
    for _ in range(100):
        assert decider.decide(_READ).primary == "grpc"
    assert looks.count(decider.plan.path) <= 1  # the write's own
    clock.passes()
    for _ in range(100):
        assert decider.decide(_READ).primary == "shm"
    assert looks.count(decider.standing.journal.path) == 1


@pytest.mark.parametrize("broken", ["[stages", '[stages]\ndefault = "half"\n', "\udcff", None])
def test_a_broken_file_leaves_the_last_good_plan_and_is_said_once(
    write: Write, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    clock = Clock()
    path = write(_everything("shm"))
    decider = Decider(clock=clock)
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken.encode(errors="surrogateescape"))
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        for _ in range(3):
            clock.passes()
            assert decider.decide(_READ).primary == "shm"
    assert [record.message.partition(":")[0] for record in caplog.records] == ["stages stay as they were"]
    write(_everything("complete"))
    clock.passes()
    assert decider.decide(_READ).stage == "complete"


def test_a_file_that_is_wrong_from_the_start_is_an_error(write: Write) -> None:
    write("[stages")
    with pytest.raises(ConfigError):
        Decider()


def test_without_a_file_grpc_answers_until_there_is_one(
    project: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    decider = Decider(clock=clock)
    clock.passes()
    assert decider.decide(_READ) == Decision("grpc", "", "grpc")
    write(_everything("shadow"))
    clock.passes()
    assert decider.decide(_READ).shadow == "shm"
    assert caplog.records == []


def test_a_demotion_takes_a_method_back_and_a_promotion_lets_it_go(write: Write, project: Path) -> None:
    clock = Clock()
    write(_everything("shm"))
    decider = Decider(clock=clock)
    assert decider.decide(_READ).primary == "shm"
    journal = Journal(project / "lucky-evidence")
    journal.demote(_READ, Placement.parse("shm"), Placement.parse("shadow"), "differs")
    clock.passes()
    assert decider.decide(_READ) == Decision("grpc", "shm", "shadow")
    assert decider.decide("/hazel.rpc.SceneService/ListEntities").primary == "shm"
    journal.promote(_READ, Placement.parse("shadow"), Placement.parse("shm"))
    clock.passes()
    assert decider.decide(_READ).primary == "shm"


def test_a_demotion_from_before_the_start_counts_too(write: Write, project: Path) -> None:
    write(_everything("shm"))
    Journal(project / "lucky-evidence").demote(_READ, Placement.parse("shm"), Placement.parse("grpc"), "died")
    assert Decider().decide(_READ) == Decision("grpc", "", "grpc")


def test_the_environment_overrides_demotions_too(write: Write, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(_everything("grpc"))
    Journal(project / "lucky-evidence").demote(_READ, Placement.parse("shm"), Placement.parse("grpc"), "died")
    monkeypatch.setenv("LUCKY_TRANSPORT", "shm")
    assert Decider().decide(_READ) == Decision("shm", "", "complete")


def test_the_stepping_path_has_one_stage_and_stays_where_the_process_began(write: Write) -> None:
    clock = Clock()
    write(
        _everything("grpc", '[stages.methods]\n"AgentService/Step" = "canary 50%"\n"AgentService/ResetAgent" = "grpc"')
    )
    decider = Decider(clock=clock, start=lambda: 0.75)
    path = sorted(STEPPING_PATH)
    assert {decider.decide(name) for name in path * 20} == {Decision("shm", "", "canary 50%")}
    write(_everything("grpc"))
    clock.passes()
    assert {decider.decide(name) for name in path} == {Decision("shm", "", "canary 50%")}
    assert Decider().decide(STEP) == Decision("grpc", "", "grpc")


def test_a_demotion_of_any_part_takes_the_whole_stepping_path_back(write: Write, project: Path) -> None:
    clock = Clock()
    write(_everything("shm"))
    decider = Decider(clock=clock)
    assert decider.decide(STEP).primary == "shm"
    reset = "/hazel.rpc.AgentService/ResetAgent"
    Journal(project / "lucky-evidence").demote(reset, Placement.parse("shm"), Placement.parse("grpc"), "died")
    clock.passes()
    assert {decider.decide(name) for name in STEPPING_PATH} == {Decision("grpc", "", "grpc")}


def test_an_evidence_folder_that_moves_is_followed(write: Write, project: Path) -> None:
    clock = Clock()
    write(_everything("shm"))
    decider = Decider(clock=clock)
    write(_everything("shm", 'evidence = "elsewhere"'))
    Journal(project / "elsewhere").demote(_READ, Placement.parse("shm"), Placement.parse("grpc"), "died")
    clock.passes()
    assert decider.decide(_READ).primary == "grpc"


def test_a_file_of_the_same_size_and_second_is_still_another_one(write: Write) -> None:
    clock = Clock()
    path = write(_everything("shm "))
    decider = Decider(clock=clock)
    before = path.stat()
    write(_everything("grpc"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    clock.passes()
    assert decider.decide(_READ).primary == "grpc"
