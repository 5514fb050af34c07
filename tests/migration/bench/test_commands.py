"""The suite of commands: what is measured, how answers are checked meanwhile, and what the result says."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import NotReachable, RemoteProtocolError
from lucky_transport.messages import ImageFrame, LidarBeamCountResponse, PolicySlotSummary, SetStateResponse
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.echo_engine import EchoEngine, shade
from lucky_transport_migration.bench.flow import StreamMeasurement, measure_images, measure_messages
from lucky_transport_migration.bench.measuring import QUICK, Measurement
from lucky_transport_migration.bench.report import bench_markdown, bench_page, without_histograms
from lucky_transport_migration.bench.run import Results
from lucky_transport_migration.bench.suite import Cell
from lucky_transport_migration.bench.suites.commands import (
    COMMAND_TARGETS,
    cases_of,
    measure,
    measure_commands,
    plan_of_commands,
    prepare,
)

#: Made-up typical times, microseconds: (kind, path, wait).
TYPICAL_US = {"grpc": 600.0, "adaptive": 6.0, "block": 80.0}


def made_up(cell: Cell, index: int) -> Any:
    """A measurement in which shm is 100 times faster than gRPC, blocking 7.5 times."""
    us = TYPICAL_US[cell.wait or cell.path] * (1 + index / 100)
    if cell.kind in ("stream", "images"):
        return StreamMeasurement(1000, int(us * 1e6), 10**7, 10**7, False, 3)
    samples = np.full(600, int(us * 1000), np.int64)
    achieved = None if cell.rate_hz is None else True
    return Measurement(samples, samples[:5], 10**7, 10**7, index % 2 == 0, achieved)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    prepared = prepare(("grpc", "shm"), None, rounds=6, quick=False)
    results = Results()
    for index in range(prepared.plan.rounds):
        for case in prepared.cases:
            results.add(case, {cell: made_up(cell, index) for cell in case.cells})
    return prepared.result_of(results, "lucky-transport bench --suite commands", load=0.0)


@pytest.fixture
def result(made: dict[str, Any]) -> dict[str, Any]:
    """A result for a test that may change it."""
    return copy.deepcopy(made)


# what is measured


def test_each_way_of_waiting_is_measured_in_processes_of_its_own() -> None:
    plan = plan_of_commands(("grpc", "shm"), None, rounds=5, quick=False)
    assert [str(case) for case in cases_of(plan)] == [
        *("grpc", "shm adaptive", "shm block"),
        *("grpc, sizes", "shm adaptive, sizes"),
    ]


def test_calls_are_measured_inline_and_in_the_pool_flat_out_and_at_fifty_a_second() -> None:
    plan = plan_of_commands(("grpc", "shm"), None, rounds=5, quick=False)
    cells, sizes = [case.cells for case in cases_of(plan) if case.wait == "adaptive"]
    unary = {(cell.what, cell.rate_hz) for cell in cells if cell.kind == "unary"}
    assert unary == {("inline", None), ("inline", 50), ("pool", None), ("pool", 50)}
    assert [(cell.kind, cell.what) for cell in cells if cell.kind != "unary"] == [
        ("stream", ""),
        ("images", "view"),
        ("images", "copy"),
    ]
    assert [cell.size for cell in sizes] == [1_000, 100_000, 200_000, 1_000_000, 8_000_000, 64_000_000]


def test_every_cell_is_measured_over_a_transport_without_processes() -> None:
    plan = plan_of_commands(("inproc",), None, rounds=1, quick=True)
    for case in cases_of(plan):
        assert tuple(measure_commands(case, plan)) == case.cells


@pytest.mark.usefixtures("without_charts")
def test_a_run_that_fails_after_its_first_pair_has_a_report_without_ratios() -> None:
    prepared = prepare(("grpc", "shm"), None, rounds=6, quick=False)
    pairs = iter(prepared.cases[:1])

    def measure(case: Any) -> Any:
        if next(pairs, None) is None:
            raise NotReachable("shm adaptive: the engine failed")
        return {cell: made_up(cell, 0) for cell in case.cells}

    result = replace(prepared, measure=measure).run("lucky-transport bench --suite commands")
    assert {row["path"] for row in result["rows"]} == {"grpc"}
    assert result["ratios"] == []
    result["targets"] = targets.check(result, COMMAND_TARGETS)
    assert {one["word"] for one in result["targets"]} == {"NOT MEASURED"}
    for text in (bench_page(result), bench_markdown(result)):
        assert "of which 1 of" in text


# what is checked while it is timed


class Forger(EchoEngine):
    """An echo engine that gets one thing wrong; `wrong` says what."""

    def __init__(self, wrong: str) -> None:
        super().__init__(width=8, height=4)
        self._wrong = wrong

    @property
    def services(self) -> dict[str, Any]:
        answer = LidarBeamCountResponse(5)
        return {**super().services, "/hazel.rpc.LidarService/GetLidarBeamCount": lambda request, call=None: answer}

    @property
    def streams(self) -> dict[str, Any]:
        def items(request: Any, call: Any) -> Any:
            for number in (0, 1, 3) if self._wrong == "lost" else (0, 1, 1):
                yield PolicySlotSummary(slot_id=number, name="x" * 1000)

        def images(request: Any, call: Any) -> Any:
            pixels = bytearray(bytes([shade(1)]) * 128)
            if self._wrong == "torn":
                pixels[-1] = shade(2)
            while True:
                yield ImageFrame(bytes(pixels), 8, 4, 4, "raw", 0, 1)

        return {
            "/hazel.rpc.AgentService/StreamPolicySlotState": items,
            "/hazel.rpc.CameraService/StreamCamera": images,
        }


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [("lost", "item 3 of 1000 bytes where item 2"), ("doubled", "item 1 of 1000 bytes where item 2")],
)
def test_a_lost_or_doubled_message_ends_the_measurement(wrong: str, complaint: str) -> None:
    with (
        api.serve(Forger(wrong), "inproc://forger"),
        api.connect("inproc://forger") as client,
        pytest.raises(RemoteProtocolError, match=complaint),
    ):
        measure_messages(client, 1000, QUICK, None)


class Shortener(EchoEngine):
    """An echo engine that answers with less than it was given."""

    @property
    def services(self) -> dict[str, Any]:
        answer = SetStateResponse(b"short")
        return {**super().services, "/lucky_transport.v1.StateService/SetState": lambda request, call=None: answer}


def test_an_answer_that_is_cut_short_ends_the_measurement() -> None:
    plan = plan_of_commands(("inproc",), None, rounds=1, quick=True)
    with (
        api.serve(Shortener(width=8, height=4), "inproc://forger"),
        api.connect("inproc://forger") as client,
        pytest.raises(RemoteProtocolError, match="an answer of 5 bytes to a request of 1000"),
    ):
        measure(client, Cell("bytes", "inproc", size=1000), plan, None)


@pytest.mark.parametrize("reading", ["view", "copy"])
@pytest.mark.parametrize(("wrong", "complaint"), [("torn", "is torn"), ("stale", "image 1 came after image 1")])
def test_a_torn_or_stale_image_ends_the_measurement(wrong: str, complaint: str, reading: str) -> None:
    with (
        api.serve(Forger(wrong), "inproc://forger"),
        api.connect("inproc://forger") as client,
        pytest.raises(RemoteProtocolError, match=complaint),
    ):
        measure_images(client, reading, QUICK, None)


# the result


def test_the_result_is_json_with_one_row_per_cell(result: dict[str, Any]) -> None:
    rows = json.loads(json.dumps(without_histograms(result), allow_nan=False))["rows"]
    keys = [(row["title"], row["path"], row["wait"]) for row in rows if not row["again"]]
    assert len(set(keys)) == len(keys)
    assert {row["kind"] for row in rows} == {"unary", "stream", "images", "bytes"}
    assert result["noise_floor"]["floor"] == 1.0


def test_ratios_compare_each_other_way_with_the_reference(result: dict[str, Any]) -> None:
    found = {(one["title"], one["to"], one["to_wait"]): one for one in result["ratios"]}
    inline = found["small typed call, handler inline", "grpc", None]
    assert inline["ratio"] == pytest.approx(100)
    assert "shared memory (adaptive) is 100 times faster" in inline["sentence"]
    assert found["small typed call, handler pool, 50 a second", "shm", "block"]["ratio"] == pytest.approx(
        80 / 6, abs=1e-3
    )
    assert not found["small typed call, handler pool, 50 a second", "shm", "block"]["main"]
    assert found["stream of 1 kB messages, per message", "grpc", None]["ratio"] == pytest.approx(100)


def test_each_target_is_met_missed_or_not_measured(result: dict[str, Any]) -> None:
    found = {one["name"]: one for one in targets.check(result, COMMAND_TARGETS)}
    assert len(found) == len(COMMAND_TARGETS)
    assert found["small typed call, inline, adaptive: gRPC over shm"]["word"] == "PASS"
    assert found["small typed call, pool, block: gRPC over shm"]["measured"] == pytest.approx(7.5)
    assert found["1280x720 RGBA as views: gRPC over shm"]["word"] == "PASS"


def test_pictures_of_another_size_prove_nothing(result: dict[str, Any]) -> None:
    result["options"]["width"] = 64
    found = {one["name"]: one for one in targets.check(result, COMMAND_TARGETS)}
    assert found["1280x720 RGBA as views: gRPC over shm"]["word"] == "NOT MEASURED"


def test_a_missed_target_fails(result: dict[str, Any]) -> None:
    for row in result["rows"]:
        if (row["kind"], row["path"], row["wait"]) == ("stream", "shm", "adaptive"):
            row["us"]["p50"] *= 10
    found = {one["name"]: one for one in targets.check(result, COMMAND_TARGETS)}
    assert found["stream of 1 kB messages: gRPC over shm"]["word"] == "FAIL"


def test_the_page_shows_verdict_rows_targets_and_how_it_was_done(result: dict[str, Any]) -> None:
    result["targets"] = targets.check(result, COMMAND_TARGETS)
    text = bench_page(result)
    for part in (
        "Commands, streams and images",
        "small typed call, handler inline",
        "typed call with bytes there and back",
        "64 MB",
        "PASS",
        "7.50 times",
        "bench.json",
    ):
        assert part in text
    assert bench_page(result) == text
