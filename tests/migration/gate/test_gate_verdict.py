"""What the gate says of evidence, its limits, and how looks are counted."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bounds import error_of_look, needed_trials, upper_bound
from lucky_transport_migration.catalogue.catalogue import Catalogue
from lucky_transport_migration.evidence.record import Evidence, SideResult
from lucky_transport_migration.gate.gate_verdict import judge
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.routing.evidence_policy import demotion
from lucky_transport_migration.stages.effective_stages import EffectiveStages
from lucky_transport_migration.stages.journal import Demotion
from lucky_transport_migration.stages.stage import Placement, Stage
from lucky_transport_migration.stages.stage_plan import StagePlan
from tests.migration.gate.power import durations
from tests.support.fixtures.migration_evidence import promote, seen
from tests.support.waiting import PATIENCE_S, at_once

STEP = "/hazel.rpc.AgentService/Step"

OTHER = "/hazel.rpc.SceneService/ListEntities"


def calls(n: int, seed: int = 0, grpc_us: float = 400.0, shm_us: float = 40.0, **fields: Any) -> Iterator[Evidence]:
    """Yield equal calls, durations drawn around the given medians. fields: of `Evidence`."""
    noise = np.random.default_rng(seed).lognormal(0.0, 0.4, (n, 2))
    for ours, theirs in noise.tolist():
        yield seen(grpc_us=grpc_us * ours, shm_us=shm_us * theirs, **fields)


def different(where: str = "entity.name", **fields: Any) -> Evidence:
    return seen(verdict="different", aspect="item", where=where, values={"grpc": "a", "shm": "b"}, **fields)


def test_enough_equal_and_fast_calls_move_on() -> None:
    verdict = judge(calls(1200), Limits())
    assert verdict.promote
    assert verdict.reasons == []
    (row,) = verdict.methods.values()
    assert (row.summary.calls, row.summary.compared, row.summary.bad, row.look) == (1200, 1200, 0, 1)
    assert row.mismatch_bound == pytest.approx(0.002907, abs=1e-6)


def test_too_few_calls_are_named_with_both_numbers() -> None:
    verdict = judge(calls(999), Limits(mismatch_limit=0.1))
    assert not verdict.promote
    assert verdict.reasons == ["/hazel.rpc.SceneService/GetEntity: 999 calls compared, 1,000 asked for (calls)"]


def test_repeats_of_one_request_are_one_trial() -> None:
    own = [one for n in range(10) for one in calls(200, seed=n, request=f"{n:016x}", method="/team.v1.Robot/Read")]
    short = judge(own, Limits()).reasons[0]
    assert "2,000 calls of 10 distinct accepted requests compared, 1,000 asked for (calls)" in short
    assert "`lucky-transport parity --server COMMAND --requests 2400 --evidence DIRECTORY` makes others" in short
    drawn = [replace(one, kind="parity") for one in own]  # the same seed draws these 2,000 first
    assert "--requests 4400 --evidence DIRECTORY` makes others" in judge(drawn, Limits()).reasons[0]
    different_ones = [seen(request=f"{index:016x}") for index in range(1_200)]
    (row,) = judge(different_ones, Limits()).methods.values()
    assert row.promote
    assert (row.summary.compared, row.summary.trials) == (1_200, 1_200)


def test_a_refusal_that_is_alike_on_both_sides_is_compared_and_is_no_trial() -> None:
    refused = [seen(request=f"{index:016x}", code="NOT_FOUND") for index in range(2_000)]
    accepted = [seen(request=f"{index:015x}a") for index in range(900)]
    (reason,) = judge([*refused, *accepted], Limits()).reasons
    assert "2,900 calls of 900 distinct accepted requests compared, 1,000 asked for (calls)" in reason
    (row,) = judge([*refused, *accepted, different(request="b" * 16, code="NOT_FOUND")], Limits()).methods.values()
    assert (row.summary.trials, row.summary.bad_trials.sum()) == (901, 1)


def test_a_request_that_differed_once_is_one_bad_trial_however_often_it_is_repeated() -> None:
    rows = [seen(request=f"{index:016x}") for index in range(1_982)]
    bad = [different(request="f" * 16) for _ in range(50)]
    good_repeats = list(calls(50, request="f" * 16))
    (reason,) = judge([*rows, *bad, *good_repeats], Limits()).reasons
    assert "of 2,082 compared calls of 1,983 distinct accepted requests 50 differed" in reason
    assert judge([*rows, seen(request="a" * 16), *bad, *good_repeats], Limits()).promote


def test_one_mismatch_is_called_different_and_held_back_where_too_high_a_rate_is_open() -> None:
    (reason,) = judge([*calls(999), different()], Limits()).reasons
    assert ": DIFFERENT: of 1,000 compared calls 1 differed and 0 failed (item 1); after a fix, " in reason
    assert reason.endswith("up to 0.598 % is open, the limit is 0.3 %")
    assert "entity.name: grpc 'a', shm 'b'" in reason
    assert not judge([*calls(1982), different()], Limits()).promote
    assert judge([*calls(1983), different()], Limits()).promote


@pytest.mark.parametrize(
    ("rung", "control", "candidate", "is_said"),
    [
        ("canary 1%", 990, 10, True),
        ("canary 10%", 1, 1, False),  # more calls of any share are missing
        ("canary 50%", 600, 400, False),
        ("canary 1%", 0, 0, False),
        ("shm", 0, 10, False),
    ],
)
def test_a_larger_share_is_advised_where_the_share_is_what_lacks_calls(
    tmp_path: Path, rung: str, control: int, candidate: int, is_said: bool
) -> None:
    made = ((count, name, other) for count, name, other in ((control, "grpc", "shm"), (candidate, "shm", "grpc")))
    live = [one for count, *names in made for one in [seen(transports=names, stage=rung)] * count]
    standing = EffectiveStages(StagePlan(tmp_path / "stages.toml", default=Placement.parse(rung)), {})
    parity = [seen(kind="parity", stage="parity", request=f"{index:016x}") for index in range(1_200)]
    told = "; ".join(judge([*parity, *live], Limits(), standing=standing).reasons)
    advice = "a larger share (`lucky-transport stage set 'SceneService/GetEntity' 'canary 50%'`) brings"
    assert told.count(advice) == is_said, told


def test_a_failed_candidate_counts_as_much_as_a_wrong_one() -> None:
    failed = seen(verdict="failed", aspect="code", shadow=SideResult("shm", "UNAVAILABLE"))
    verdict = judge([*calls(1200), failed], Limits())
    assert not verdict.promote
    assert "0 differed and 1 failed (code 1)" in verdict.reasons[0]


def test_one_method_that_may_not_move_holds_the_verdict_but_not_the_others() -> None:
    verdict = judge([*calls(1500), *calls(10, method=OTHER)], Limits())
    assert not verdict.promote
    assert [row.promote for row in verdict.methods.values()] == [True, False]
    assert all(reason.startswith(f"{OTHER}: ") for reason in verdict.reasons)


def test_calls_that_nothing_was_compared_of_move_nothing() -> None:
    unseen = [seen(stage="canary 10%", verdict="not_compared", shadow=None, why="it changes the world")] * 5000
    (reason,) = judge(unseen, Limits()).reasons
    assert "of 5,000 calls none was compared (5,000: it changes the world)" in reason
    assert "parity" in reason


def test_methods_at_rest_are_not_judged() -> None:
    at_grpc = seen(method=OTHER, stage="grpc", verdict="not_compared", shadow=None)
    complete = seen(method="/a.B/C", stage="complete", verdict="not_compared", shadow=None)
    verdict = judge([*calls(1200), at_grpc, complete], Limits())
    assert verdict.promote
    assert len(verdict.methods) == 1


def test_comparisons_made_on_two_engines_count() -> None:
    assert judge(calls(1200, kind="parity", stage=""), Limits()).promote
    replayed = [seen(kind="replay", stage="")] * 1200
    assert not judge(replayed[:990], Limits()).promote
    assert judge([*replayed, *calls(100)], Limits()).promote, "the durations are those of the live calls"


def test_calls_whose_noise_lasts_hold_back_and_say_what_they_are_worth() -> None:
    (reason,) = judge(timed(3_000, 0.99), Limits()).reasons
    assert re.search(r"noise that lasts makes 3,000 calls worth \d\d independent ones; more calls", reason)
    (reason,) = judge(timed(2_000, 0.0), Limits(slower_limit=1.01)).reasons
    assert "noise that lasts" not in reason


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_no_count_of_calls_is_promised_where_the_noise_of_a_machine_decides(correlation: float) -> None:
    (reason,) = judge(timed(2_000, correlation), Limits(slower_limit=1.01)).reasons
    assert reason.endswith("more calls, over a longer time, can show that it is kept")
    assert not re.search(r"[\d,]+ more calls", reason)


def test_mismatches_in_a_burst_leave_a_higher_rate_open_than_as_many_apart() -> None:
    burst = [*calls(2500), *[different()] * 10, *calls(2490)]
    (reason,) = judge(burst, Limits(calls=1)).reasons
    assert "mismatches come in bursts: 5,000 are worth" in reason
    apart = [one for index in range(10) for one in (*calls(499, seed=index), different())]
    (other,) = judge(apart, Limits(calls=1)).reasons
    assert open_rate(reason) > 1.5 * open_rate(other)


def open_rate(reason: str) -> float:
    found = re.search(r"a rate of up to ([\d.]+) % is open", reason)
    assert found is not None
    return float(found[1])


def timed(calls: int, correlation: float, times: float = 1.0) -> Iterator[Evidence]:
    """Yield equal calls whose durations have noise that lasts."""
    random = np.random.default_rng(5)
    sides = (durations(random, calls, correlation, us).tolist() for us in (400.0, 400.0 * times))
    return (seen(grpc_us=one, shm_us=other) for one, other in zip(*sides, strict=True))


def test_what_an_aa_run_shows_as_noise_is_no_slowness() -> None:
    same: dict[str, Any] = {"primary": SideResult("grpc", us=400.0), "shadow": SideResult("grpc", us=480.0)}
    slower = list(calls(4000, grpc_us=400, shm_us=440))
    assert judge([*slower, *calls(200, kind="aa", **same)], Limits()).promote
    (reason,) = judge([*calls(4000, grpc_us=400, shm_us=600), *calls(200, kind="aa", **same)], Limits()).reasons
    assert "the limit is 1.20 (noise of 200 A/A pairs, the last of 2026-01-02)" in reason
    assert not judge([*slower, *calls(20, kind="aa", **same)], Limits()).promote, "20 pairs say nothing"


def test_a_noisy_aa_run_does_not_excuse_any_slowness() -> None:
    same: dict[str, Any] = {"primary": SideResult("grpc", us=400.0), "shadow": SideResult("grpc", us=4000.0)}
    (reason,) = judge([*calls(4000, grpc_us=400, shm_us=600), *calls(200, kind="aa", **same)], Limits()).reasons
    assert "the limit is 1.25" in reason


def test_an_aa_run_alone_is_no_evidence() -> None:
    assert not judge(calls(5000, kind="aa"), Limits()).promote


def test_items_of_a_stream_that_all_come_at_its_end_hold_it_back() -> None:
    def streams(first_us: float) -> Iterator[Evidence]:
        for index in range(1200):
            control, candidate = 400.0 + index % 7, 380.0 + index % 5
            yield seen(
                primary=SideResult("grpc", us=control, items=9, first=control / 9),
                shadow=SideResult("shm", us=candidate, items=9, first=first_us + index % 3),
            )

    (reason,) = judge(streams(370.0), Limits()).reasons
    assert "its time to the first item is 44.8 µs over gRPC and 371 µs over shared memory" in reason
    verdict = judge(streams(30.0), Limits())
    assert verdict.promote
    assert [one.percentile for row in verdict.methods.values() for one in row.latency] == [
        "p50",
        "time to the first item",
    ]


def test_durations_of_a_recording_are_not_compared_with_those_of_today() -> None:
    (reason,) = judge(calls(1200, kind="replay", grpc_us=10, shm_us=5_000), Limits()).reasons
    assert "it needs 8 pairs of timed calls" in reason
    assert "no replay" in reason


def test_durations_of_calls_at_stage_grpc_do_not_count() -> None:
    both = [replace(one, kind="parity") for one in calls(1_200)]
    slow = (replace(one, stage="grpc", shadow=None, verdict="not_compared") for one in calls(500, grpc_us=40_000.0))
    alone, beside = (judge(found, Limits()).methods[both[0].method].latency for found in (both, [*both, *slow]))
    assert alone == beside


def test_durations_of_calls_that_failed_do_not_count() -> None:
    nothing, reason = judge([seen(code="NOT_FOUND", grpc_us=10.0, shm_us=900.0)] * 1200, Limits()).reasons
    assert "NOTHING COMPARED: none of 1,200 compared calls was accepted (1,200 NOT_FOUND)" in nothing
    assert "its p50 is not known: it needs 8 pairs" in reason
    assert reason.endswith("has 0")


def test_a_method_that_an_engine_does_not_have_is_refused_alike_and_that_is_its_answer() -> None:
    own, other = (
        judge([seen(name, code="UNIMPLEMENTED")] * 9, Limits()).reasons
        for name in ("/hazel.rpc.SceneService/GetEntity", "/team.v1.A/Get")
    )
    assert "NOTHING COMPARED" not in str(own)
    assert "NOTHING COMPARED" in str(other)


def test_a_tail_that_too_few_callers_waited_for_holds_back_and_says_how_many_there_are() -> None:
    shm, grpc = SideResult("shm", us=40.0), SideResult("grpc", us=400.0)
    rows = [seen(stage="canary 10%", primary=shm, shadow=grpc)] * 90
    rows += [seen(stage="canary 10%", primary=grpc, shadow=shm)] * 1_110
    (reason,) = judge(rows, Limits()).reasons
    assert reason.endswith(
        "it needs 500 timed calls of each side that a caller waited for (live, parity), and has 1,110 over gRPC and 90 "
        "over shared memory"
    )


def test_a_slow_tail_is_held_back_where_callers_wait_for_the_candidate() -> None:
    def waited(slow_us: float) -> Iterator[Evidence]:
        for index in range(1_200):
            us = {"grpc": 8_000.0 + index % 7, "shm": 7_000.0 + index % 5 + (index // 2 % 50 == 0) * slow_us}
            sides = [SideResult(name, us=us[name]) for name in ("grpc", "shm")]
            yield seen(stage="canary 50%", primary=sides[index % 2], shadow=sides[not index % 2])

    (reason,) = judge(waited(15_000.0), Limits()).reasons
    assert "its p99 is" in reason
    assert "the limit is 1.50" in reason
    assert "could show that it is kept" not in reason
    assert judge(waited(0.0), Limits()).promote


def test_a_field_that_differs_over_one_transport_as_well_gets_a_remedy() -> None:
    noise = different(where="frames[3].timestamp", kind="aa")
    (reason,) = judge([*calls(1200), noise, different(where="frames[0].timestamp")], Limits()).reasons
    assert "[parity.fields]" in reason
    (reason,) = judge([*calls(1200), noise, different()], Limits()).reasons
    assert "[parity.fields]" not in reason


def test_the_verdict_is_json_with_what_was_left_out() -> None:
    some = [
        seen(left_out={"AgentFrame.timestamp_ms": "a clock"}),
        seen(verdict="not_compared", shadow=None, why="the pool is full"),
    ]
    plain = json.loads(json.dumps(judge([*calls(1200), *some], Limits()).plain(), allow_nan=False))
    assert set(plain) == {"promote", "reasons", "methods"}
    (row,) = plain["methods"].values()
    assert row["promote"] is True
    assert row["calls"] == 1202
    assert row["left_out"] == ["AgentFrame.timestamp_ms"]
    assert row["unjudged"] == [
        "its p99: no caller waits for both transports",
        "the answers to 1 call: the pool is full",
    ]
    assert row["not_compared"] == [{"why": "the pool is full", "calls": 1}]


def demoted(cool_until: float, method: str = OTHER) -> EffectiveStages:
    shadow = Placement(Stage.SHADOW)
    plan = StagePlan(Path("lucky_transport.toml"), default=shadow, catalogue=Catalogue())
    return EffectiveStages(plan, {method: Demotion(method, shadow, "entity.name differs", cool_until)})


def test_a_demoted_method_is_held_back_for_its_cool_down_whatever_was_seen() -> None:
    verdict = judge([*calls(1500), *calls(1500, method=OTHER)], Limits(), standing=demoted(time.time() + 100))
    (reason,) = verdict.reasons
    assert reason.startswith(f"{OTHER}: demoted to shadow (entity.name differs), in cool-down for ")
    assert [row.promote for row in verdict.methods.values()] == [True, False]


def test_after_its_cool_down_a_demoted_method_moves_on_by_new_evidence_only() -> None:
    verdict = judge(calls(1500), Limits(), standing=demoted(1.0))
    found, unseen = (reason.partition(": ")[2] for reason in verdict.reasons)
    assert found == "demoted to shadow (entity.name differs)"
    assert "no call of it was compared since its last move" in unseen
    assert judge([*calls(1500), *calls(1500, method=OTHER)], Limits(), standing=demoted(1.0)).promote


def test_a_demotion_of_the_stepping_path_holds_step_back() -> None:
    """`stage promote` refuses Step then, whichever of its methods was demoted."""
    exchanges = list(calls(1500, method=STEP, kind="parity", stage="exchange"))
    standing = demoted(time.time() + 100, "/hazel.rpc.AgentService/ResetAgent")
    row = judge(exchanges, Limits(), standing=standing).methods[STEP]
    assert row.reasons[0].startswith("demoted to shadow (entity.name differs), in cool-down for ")


def test_the_verdict_on_a_method_is_the_same_whatever_else_is_asked_for() -> None:
    """The bounds hold for all methods that are on their way together."""
    evidence = [*calls(1300), *calls(1300, method=OTHER)]
    both = judge(evidence, Limits())
    assert not both.promote
    alone = judge(evidence, Limits(), asked=OTHER.__eq__)
    assert alone.reasons == both.reasons[1:]
    assert len(alone.reasons) == 1


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        ("/hazel.rpc.SceneService/GetEntity", "at grpc no shadow is asked: `lucky-transport stage promote SceneS"),
        ("/hazel.rpc.SceneService/SetEntityTransform", "compare on two engines, by `lucky-transport parity`"),
        ("/team.v1.Robot/MoveTo", "or by `record` and `replay`; if it only reads, say so in its .proto"),
    ],
)
def test_the_advice_names_the_evidence_that_a_method_can_have(method: str, advice: str) -> None:
    plan = StagePlan(Path("lucky_transport.toml"), catalogue=Catalogue())
    unseen = seen(method=method, stage="grpc", verdict="not_compared", shadow=None)
    standing = EffectiveStages(plan, {method: Demotion(method, Placement(Stage.GRPC), "it differs", 1.0)})
    for evidence in ([], [unseen], [replace(unseen, stage="shadow"), unseen]):
        verdict = judge(evidence, Limits(), standing=standing)
        assert advice in verdict.methods[method].reasons[-1]
    shadowed = EffectiveStages(replace(plan, default=Placement(Stage.SHADOW)), {})
    expected = advice if method != "/hazel.rpc.SceneService/GetEntity" else "run the program on this rung"
    assert expected in judge([], Limits()).refusal(method, shadowed)


def test_without_a_file_the_defaults_fit_together(tmp_path: Path) -> None:
    limits = Limits.load(tmp_path)
    assert limits == Limits()
    assert upper_bound(0, limits.calls, limits.confidence) <= limits.mismatch_limit


def test_the_page_says_how_many_calls_the_default_limit_needs() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "how-to" / "gate.md").read_text().split())
    one, ten, all_of_them = (_needed(methods=methods) for methods in (1, 10, 72))
    counts = f"at the first look, {ten} of each of 10 methods and {all_of_them} of each of 72"
    assert f"needs {one} requests of a single method {counts}" in page
    fifth, fiftieth = (_needed(look=look) for look in (5, 50))
    assert f"needs {one} requests at the first look, {fifth} at the fifth and {fiftieth} at the fiftieth" in page


def _needed(methods: int = 1, look: int = 1) -> str:
    limits = Limits()
    error = error_of_look(1 - limits.confidence, look)
    return f"{needed_trials(0, limits.mismatch_limit, 1 - error / methods):,}"


def test_the_file_says_otherwise(tmp_path: Path) -> None:
    rows = "calls = 1\nslower_limit = 2\ntail_limit = 3\ndemote = false\n"
    (tmp_path / "lucky_transport.toml").write_text(f"[gate]\n{rows}")
    assert Limits.load(tmp_path) == Limits(calls=1, slower_limit=2, tail_limit=3, demote=False)


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        ("calls = 0", "a whole number of calls from 1"),
        ("calls = true", "a whole number of calls from 1"),
        ("calls = 10.5", "a whole number of calls from 1"),
        ("mismatch_limit = 0", "a rate between 0 and 1"),
        ("mismatch_limit = '1%'", "a rate between 0 and 1"),
        ("slower_limit = 0.9", "a ratio from 1"),
        ("slower_limit = nan", "a ratio from 1"),
        ("tail_limit = 0.9", "a ratio from 1"),
        ("confidence = 1", "a share from 0.5"),
        ("demote = 'no'", "true or false"),
        ("cool_down_s = -1", "seconds >= 0"),
        ("cool_down_s = inf", "seconds >= 0"),
        (f"cool_down_s = 1{'0' * 400}", "seconds >= 0"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_a_remedy(tmp_path: Path, row: str, remedy: str) -> None:
    (tmp_path / "lucky_transport.toml").write_text(f"[gate]\n{row}\n")
    with pytest.raises(ConfigError) as caught:
        Limits.load(tmp_path)
    key = row.partition(" ")[0]
    assert str(tmp_path / "lucky_transport.toml") in str(caught.value)
    assert f"{key} = " in str(caught.value)
    assert remedy in caught.value.hint


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[gate]\nmismatch_limits = 0.1\n")
    with pytest.raises(ConfigError, match="did you mean 'mismatch_limit'"):
        Limits.load(tmp_path)


METHOD = "/hazel.rpc.SceneService/GetEntity"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder in which nobody has looked at anything yet."""
    (tmp_path / "looks.jsonl").touch()
    return tmp_path


def look(folder: Path, calls: int, *, method: str = METHOD) -> int:
    return Looks(folder).take({method: (calls, 0)}, lambda name, number: True)[method]


def test_all_looks_together_spend_no_more_than_the_error() -> None:
    spent = [error_of_look(0.05, number) for number in range(1, 10_000)]
    assert spent == sorted(spent, reverse=True)
    assert 0.0499 < sum(spent) < 0.05


def test_looks_are_counted_method_by_method(folder: Path) -> None:
    assert [look(folder, calls) for calls in (1_200, 1_300, 1_400)] == [1, 2, 3]
    assert look(folder, 1_400, method=OTHER) == 1


def test_a_look_at_what_was_looked_at_before_is_no_new_one(folder: Path) -> None:
    assert [look(folder, calls) for calls in (1_200, 1_200, 1_300, 1_200, 1_300)] == [1, 1, 2, 1, 2]


def test_a_move_begins_a_new_count(folder: Path) -> None:
    for calls in (1_200, 1_300):
        look(folder, calls)
    promote(folder, METHOD, "shadow", "canary 1%")
    assert look(folder, 1_400) == 1


def test_looks_of_several_at_once_are_all_counted(folder: Path) -> None:
    numbers: list[int] = []
    start = threading.Barrier(8)

    def several(first: int) -> None:
        start.wait(PATIENCE_S)
        numbers.extend(look(folder, calls) for calls in range(first, 80, 8))

    at_once(*(partial(several, first) for first in range(8)))
    assert sorted(numbers) == list(range(1, 81))


@pytest.mark.parametrize(
    "content", [None, b"", b"\x00\xff\n", b'{"v": 1, "at": "2026-01-01T00:00:00.000Z", "met', b"[]\n"]
)
def test_where_looks_are_lost_one_after_every_hundred_calls_is_assumed(folder: Path, content: bytes | None) -> None:
    path = folder / "looks.jsonl"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    expected = [1, 2, 3] if content == b"" else [13, 21, 51]
    assert [look(folder, calls) for calls in (1_200, 2_000, 5_000)] == expected


def test_looks_that_are_gone_are_not_begun_anew(folder: Path) -> None:
    (folder / "looks.jsonl").unlink()
    look(folder, 1_200)
    assert not (folder / "looks.jsonl").exists()


def test_a_look_that_cannot_be_counted_is_an_error(folder: Path) -> None:
    (folder / "looks.jsonl").unlink()
    (folder / "looks.jsonl").mkdir()
    with pytest.raises(ConfigError, match="each look has to be counted"):
        look(folder, 1_200)


NOT_LIVE = ("aa", "replay", "parity")


@pytest.mark.parametrize("verdict", ["different", "failed"])
@pytest.mark.parametrize("fields", [{"stage": "grpc"}, {"stage": "complete"}, *({"kind": one} for one in NOT_LIVE)])
def test_only_live_calls_of_a_method_on_its_way_demote_it(verdict: str, fields: dict[str, Any]) -> None:
    """Where they lead is shown by tests/migration/evidence/test_evidence_policy.py."""
    assert demotion(seen(verdict=verdict, **{"stage": "shm", **fields}), Limits()) is None


def test_a_team_can_switch_it_off() -> None:
    assert demotion(seen(stage="shm", verdict="failed"), Limits(demote=False)) is None
