"""Decisions: the right roles, shares drawn at random, and stages that change while a program runs."""

import itertools
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport.routing import Decision
from lucky_transport_migration.stages.decision import LOOK_EVERY_S, Decider
from lucky_transport_migration.stages.effective_stages import STEPPING_PATH
from tests.support.fixtures.migration_evidence import demote, promote

STEP = "/hazel.rpc.AgentService/Step"
Write = Callable[[str], Path]

_READ, _WORLD = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.SceneService/SetEntityTransform"
_VIEW, _FOREIGN = "/hazel.rpc.DebugService/Draw", "/my.team.Robots/Grip"


def running(write: Write | None = None, text: str = "", **given: Any) -> tuple[Decider, Callable[[], None]]:
    """Return a decider of a file, and what lets the time pass after which it looks again."""
    now = [0.0]
    if write is not None:
        write(text)
    decider = Decider(clock=lambda: now[0], **given)
    return decider, lambda: now.append(now.pop() + LOOK_EVERY_S + 0.01)


def _everything(stage: str, extra: str = "") -> str:
    return f'[stages]\ndefault = "{stage}"\n{extra}'


def test_a_declared_pattern_makes_no_method_of_luckyengine_a_read(write: Write) -> None:
    write(_everything("shadow", '[stages.effects]\n"*" = "read"\n'))
    decider = Decider()
    assert [decider.decide(name).shadow for name in (_READ, _WORLD, _VIEW, STEP, _FOREIGN)] == [
        "shm",
        "",
        "",
        "",
        "shm",
    ]


def test_a_description_that_others_may_write_stops_no_call(
    write: Write, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(_everything("shadow"))
    kept = project / "lucky-evidence" / "services-1.binpb"
    kept.parent.mkdir()
    kept.write_bytes(b"")
    kept.chmod(0o666)
    decider = Decider()
    assert [decider.decide(_FOREIGN).shadow for _ in range(3)] == [""] * 3
    assert [record.getMessage().partition(", for")[0] for record in caplog.records] == [
        f"{_FOREIGN} may change the world"
    ]


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


def _draws(seed: int = 1) -> Callable[[], float]:
    return random.Random(seed).random


def test_a_canary_is_shared_memorys_turn_for_its_share_and_grpcs_else(write: Write) -> None:
    write(_everything("canary 10%"))
    decider = Decider(draw=_draws())
    decisions = [decider.decide(_READ) for _ in range(10_000)]
    assert set(decisions) == {Decision("shm", "grpc", "canary 10%"), Decision("grpc", "shm", "canary 10%")}
    assert 900 < [one.primary for one in decisions].count("shm") < 1_100


@pytest.mark.parametrize("percent", [10, 50])
def test_what_recurs_in_a_programs_calls_meets_both_transports(write: Write, percent: int) -> None:
    """A slow call in every second one, or in every fiftieth, is no matter of one side only."""
    write(_everything(f"canary {percent}%"))
    decider = Decider(draw=_draws())
    primaries = [decider.decide(_READ).primary for _ in range(20_000)]
    for period in (2, 3, 10, 50):
        for first in range(period):
            share = primaries[first::period].count("shm") * period / len(primaries)
            assert abs(share - percent / 100) < 0.1, (period, first)


def test_draws_leave_the_random_numbers_of_a_program_alone(write: Write) -> None:
    write(_everything("canary 50%"))
    decider = Decider()
    random.seed(7)
    alone = [random.random() for _ in range(10)]
    for _ in range(2):
        random.seed(7)
        both = [(random.random(), decider.decide(_READ).primary) for _ in range(10)]
        assert [number for number, _ in both] == alone
    random.seed(7)
    first = [decider.decide(_READ).primary for _ in range(100)]
    random.seed(7)
    assert [decider.decide(_READ).primary for _ in range(100)] != first


def test_forked_children_draw_each_for_itself(write: Write) -> None:
    write(_everything("canary 50%"))
    decider = Decider()
    drawn: set[bytes] = set()
    for _ in range(2):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, "".join(decider.decide(_READ).primary[0] for _ in range(200)).encode())
            os._exit(0)
        os.close(writer)
        drawn.add(os.read(reader, 200))
        os.close(reader)
        os.wait()
    assert [len(one) for one in drawn] == [200, 200]


def test_a_sample_of_the_reads_gets_a_shadow_in_both_parts_of_a_canary(write: Write) -> None:
    write(_everything("canary 50%", "sample = 0.5"))
    decider = Decider(draw=_draws())
    decisions = [decider.decide(_READ) for _ in range(4_000)]
    for primary, has_shadow in itertools.product(("grpc", "shm"), (True, False)):
        assert 850 < sum((one.primary, bool(one.shadow)) == (primary, has_shadow) for one in decisions) < 1_150


def test_no_sample_is_no_shadow(write: Write) -> None:
    write(_everything("shadow", "sample = 0"))
    assert Decider().decide(_READ) == Decision("grpc", "", "shadow")


# while it runs


def test_a_change_of_the_file_is_followed_without_looking_all_the_time(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    decider, passes = running(write, _everything("grpc"))
    looks: list[Path] = []
    look = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **options: (looks.append(path), look(path, **options))[1])
    write(_everything("shm"))
    for _ in range(100):
        assert decider.decide(_READ).primary == "grpc"
    assert looks.count(decider.plan.path) <= 1  # the write's own
    passes()
    for _ in range(100):
        assert decider.decide(_READ).primary == "shm"
    assert looks.count(decider.standing.journal.path) == 1


@pytest.mark.parametrize("broken", ["[stages", '[stages]\ndefault = "half"\n', "\udcff", None])
def test_a_broken_file_leaves_the_last_good_plan_and_is_said_once(
    write: Write, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    decider, passes = running(write, _everything("shm"))
    path = decider.plan.path
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken.encode(errors="surrogateescape"))
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        for _ in range(3):
            passes()
            assert decider.decide(_READ).primary == "shm"
    assert [record.message.partition(":")[0] for record in caplog.records] == ["stages stay as they were"]
    write(_everything("complete"))
    passes()
    assert decider.decide(_READ).stage == "complete"


def test_without_a_file_grpc_answers_until_there_is_one(
    project: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    decider, passes = running()
    passes()
    assert decider.decide(_READ) == Decision("grpc", "", "grpc")
    write(_everything("shadow"))
    passes()
    assert decider.decide(_READ).shadow == "shm"
    assert caplog.records == []


def test_a_demotion_takes_a_method_back_and_a_promotion_lets_it_go(write: Write, project: Path) -> None:
    decider, passes = running(write, _everything("shm"))
    assert decider.decide(_READ).primary == "shm"
    demote(project / "lucky-evidence", _READ, "shm", "shadow")
    passes()
    assert decider.decide(_READ) == Decision("grpc", "shm", "shadow")
    assert decider.decide("/hazel.rpc.SceneService/ListEntities").primary == "shm"
    promote(project / "lucky-evidence", _READ, "shadow", "shm")
    passes()
    assert decider.decide(_READ).primary == "shm"


def test_the_environment_overrides_demotions_too(write: Write, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(_everything("grpc"))
    demote(project / "lucky-evidence", _READ, "shm", "grpc")
    monkeypatch.setenv("LUCKY_TRANSPORT", "shm")
    assert Decider().decide(_READ) == Decision("shm", "", "complete")


def test_the_stepping_path_has_one_stage_and_stays_where_the_process_began(write: Write) -> None:
    rows = '[stages.methods]\n"AgentService/Step" = "canary 50%"\n"AgentService/ResetAgent" = "grpc"'
    decider, passes = running(write, _everything("grpc", rows), draw=lambda: 0.25)
    path = sorted(STEPPING_PATH)
    assert {decider.decide(name) for name in path * 20} == {Decision("shm", "", "canary 50%")}
    write(_everything("grpc"))
    passes()
    assert {decider.decide(name) for name in path} == {Decision("shm", "", "canary 50%")}
    assert Decider().decide(STEP) == Decision("grpc", "", "grpc")


def test_a_demotion_of_any_part_takes_the_whole_stepping_path_back(write: Write, project: Path) -> None:
    decider, passes = running(write, _everything("shm"))
    assert decider.decide(STEP).primary == "shm"
    reset = "/hazel.rpc.AgentService/ResetAgent"
    demote(project / "lucky-evidence", reset, "shm", "grpc")
    passes()
    assert {decider.decide(name) for name in STEPPING_PATH} == {Decision("grpc", "", "grpc")}


def test_an_evidence_folder_that_moves_is_followed(write: Write, project: Path) -> None:
    decider, passes = running(write, _everything("shm"))
    write(_everything("shm", 'evidence = "elsewhere"'))
    demote(project / "elsewhere", _READ, "shm", "grpc")
    passes()
    assert decider.decide(_READ).primary == "grpc"


def test_a_file_of_the_same_size_and_second_is_still_another_one(write: Write) -> None:
    decider, passes = running(write, _everything("shm "))
    path = decider.plan.path
    before = path.stat()
    write(_everything("grpc"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    passes()
    assert decider.decide(_READ).primary == "grpc"


def test_a_line_of_the_journal_that_is_not_known_hides_no_demotion_from_a_program_that_runs(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    decider, passes = running(write, _everything("shm", 'evidence = "."\n'))
    journal = decider.standing.journal.path
    journal.write_text('{"v": 1, "event": "forgotten"}\n')
    demote(journal.parent, _READ, "shm", "grpc")
    passes()
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        assert decider.decide(_READ).primary == "grpc"
    assert "demotions.jsonl: line 1: event: 'forgotten'" in caplog.text
    with pytest.raises(ConfigError, match="line 1: event: 'forgotten'"):
        Decider()
