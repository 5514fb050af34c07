"""What every suite of the bench keeps: rows, ratios, targets and pages, made of measurements that are known."""

import copy
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import NotReachable
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.report import bench_markdown, bench_page, show_bench, without_histograms
from lucky_transport_migration.bench.run import Results
from lucky_transport_migration.bench.suite import Case, check_targets
from lucky_transport_migration.bench.suites import commands, steps, stubs, training

jsonschema: Any = pytest.importorskip(
    "jsonschema", reason="jsonschema is not installed: pip install 'lucky-transport[dev]'"
)
SCHEMA = json.loads((Path(__file__).parents[3] / "schema" / "bench.schema.json").read_text())

#: Made-up microseconds of an exchange, by the way of waiting or the path.
TYPICAL_US = {"pipes": 10.0, "grpc": 10_000.0, "grpc-tcp": 400.0, "grpc-unix": 300.0, "adaptive": 20.0, "block": 80.0}
TYPICAL_US |= {"grpc-batch": 6_000.0, "inproc": 80.0, "spin": 6.0}
TARGETS = {
    "steps": steps.STEP_TARGETS,
    "commands": commands.COMMAND_TARGETS,
    "stubs": stubs.STUBS.targets,
    "training": training.TRAINING.targets,
}
each_suite = pytest.mark.parametrize("name", TARGETS)


def made_up(cell: Any, index: int) -> Any:
    """A measurement in which shared memory takes a tenth of the CPU time. A training loop loses 3 % over it and 20 %
    over gRPC, and one of LuckyEnv is 20 times as fast.
    """
    if cell.kind == "training":
        return training.Training(1000.0, 800.0 if cell.path == "grpc" else 970.0, 100.0, 30.0, 500)
    if cell.kind == "luckyenv":
        return StreamMeasurement(1000, 10**9 if cell.path == "shm" else 20 * 10**9, 10**7, None)
    us = TYPICAL_US[cell.wait or cell.path] * (1 + index / 100)
    cpu_ns = 10**6 if cell.path == "shm" else 10**7
    if cell.kind in ("stream", "images", "callers"):
        return StreamMeasurement(1000, int(us * 1e6), cpu_ns, cpu_ns, False, 3)
    samples = np.full(600, int(us * 1000), np.int64)
    engine_ns = None if cell.kind == "program" or cell.path in ("inproc", "limit") else cpu_ns
    client_ns = None if cell.path == "limit" else cpu_ns
    return Measurement(samples, samples[:5], client_ns, engine_ns, index % 2 == 0, True if cell.rate_hz else None)


def prepared(name: str) -> Any:
    """Return a suite where there is all that it needs."""
    if name == "steps":
        transports, waits = ("grpc", "shm", "inproc"), ("adaptive", "block")
        return steps.prepare(steps.plan_of("toy:idle", transports, (1, 64), waits, {}, rounds=6, quick=False))
    suites: dict[str, Any] = {"commands": commands, "stubs": stubs, "training": training}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "why_no_luckyenv", lambda: None)
        patch.setattr(stubs, "import_problem", lambda name: "")
        return suites[name].prepare(("grpc", "shm"), None, rounds=6, quick=False)


@cache
def made(name: str) -> dict[str, Any]:
    """Return the result of a whole run of a suite, in which the native limit of one size is known."""
    suite, results = prepared(name), Results()
    for index in range(suite.plan.rounds):
        for case in suite.cases:
            cells = [cell for cell in case.cells if cell.path != "limit" or (cell.wait, cell.size) == ("spin", 1)]
            results.add(case, {cell: made_up(cell, index) for cell in cells})
    return suite.result_of(results, f"lucky-transport bench --suite {name}", load=0.0)


@pytest.fixture
def result(name: str) -> dict[str, Any]:
    """Return the result of the suite of that name, for a test that may change it."""
    return copy.deepcopy(made(name))


def rows_of(result: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if all(row[key] == value for key, value in wanted.items())]


def words_of(name: str, result: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["word"] for one in check_targets(result, TARGETS[name])}


# runs


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("commands", ["grpc", "shm adaptive", "shm block", "grpc, sizes", "shm adaptive, sizes"]),
        (
            "stubs",
            [
                *("grpc-tcp", "grpc-unix", "shm adaptive", "shm block"),
                *("grpc-tcp, sizes", "grpc-unix, sizes", "shm adaptive, sizes", "pipes"),
                *("grpc-tcp, asyncio", "grpc-unix, asyncio", "shm adaptive, asyncio"),
                *("grpc-tcp, uvloop", "grpc-unix, uvloop", "shm adaptive, uvloop"),
                *("grpc-tcp, program", "shm adaptive, program"),
            ],
        ),
    ],
)
def test_each_way_has_processes_of_its_own(name: str, ways: list[str]) -> None:
    assert [str(case) for case in prepared(name).cases if not case.twin] == ways


def test_a_run_measures_there_and_back_and_tells_each_pair() -> None:
    suite, seen, told = prepared("commands"), list[Case](), list[str]()

    def measure(case: Case) -> Any:
        seen.append(case)
        return {cell: made_up(cell, 0) for cell in case.cells}

    replace(suite, measure=measure).run("lucky-transport bench", told.append)
    assert len(told) == suite.pieces == len(seen)
    half = len(suite.cases)
    assert seen[half : 2 * half] == seen[half - 1 :: -1], "A B, then B A"


@pytest.mark.usefixtures("without_charts")
def test_a_run_that_fails_after_its_first_pair_has_a_report_without_ratios() -> None:
    suite = prepared("commands")
    pairs = iter(suite.cases[:1])

    def measure(case: Case) -> Any:
        if next(pairs, None) is None:
            raise NotReachable("shm adaptive: the engine failed")
        return {cell: made_up(cell, 0) for cell in case.cells}

    result = replace(suite, measure=measure).run("lucky-transport bench --suite commands")
    assert {row["path"] for row in result["rows"]} == {"grpc"}
    assert result["ratios"] == []
    assert set(words_of("commands", result).values()) == {"NOT MEASURED"}
    for text in (bench_page(result), bench_markdown(result)):
        assert "of which 1 of" in text


# rows


@each_suite
def test_the_result_keeps_to_the_published_schema(name: str, result: dict[str, Any]) -> None:
    result["targets"] = check_targets(result, TARGETS[name])
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(result, allow_nan=False)))
    assert '"hdr"' not in json.dumps(without_histograms(result))


@each_suite
def test_each_cell_is_one_row_of_all_rounds_and_one_of_them_stands_twice(name: str, result: dict[str, Any]) -> None:
    keys = [(row["title"], row["path"], row["wait"]) for row in result["rows"] if not row["again"]]
    assert len(set(keys)) == len(keys)
    assert {row["rounds"] for row in result["rows"]} == {6}
    for row in result["rows"]:
        assert row["us"]["p50_min"] <= row["us"]["p50"] <= row["us"]["p50_max"]
    assert any(row["again"] for row in result["rows"])
    assert result["noise_floor"]["floor"] >= 1


_STUBS = {
    *(("unary", "pool", rate) for rate in (100, 1000)),
    *((kind, "", None) for kind in ("stream", "callers", "futures", "channel", "absent", "program")),
    *((kind, form, None) for kind in ("aio", "uvloop") for form in ("", "together")),
}
_UNARY = {("unary", what, rate) for what in ("inline", "pool") for rate in (None, 50)}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("commands", {*_UNARY, ("stream", "", None), ("images", "view", None), ("images", "copy", None)}),
        ("stubs", {*_UNARY, *_STUBS}),
    ],
)
def test_a_suite_of_calls_has_rows_of_each_kind_and_bytes_up_to_64_mb(
    name: str, result: dict[str, Any], kinds: set[Any]
) -> None:
    rows = rows_of(result, path="shm", wait="adaptive", again=False)
    assert {(row["kind"], row["what"], row["rate_hz"]) for row in rows if row["kind"] != "bytes"} == kinds
    sizes = [row["size"] for row in rows if row["kind"] == "bytes"]
    assert sizes == [1_000, 100_000, 200_000, 1_000_000, 8_000_000, 64_000_000]


@pytest.mark.parametrize("name", ["steps"])
@pytest.mark.parametrize(
    ("wanted", "figures"),
    [
        ({"path": "inproc"}, {"client": True, "engine": False}),
        ({"path": "shm"}, {"client": True, "engine": True}),
        ({"path": "limit"}, {"client": False, "engine": False}),
    ],
)
def test_cpu_time_is_that_of_the_processes_that_there_are(
    result: dict[str, Any], wanted: dict[str, str], figures: dict[str, bool]
) -> None:
    for row in rows_of(result, **wanted):
        assert {side: used is not None for side, used in row["cpu_s"].items()} == figures
        assert row["n"] == 600 * row["rounds"]
    assert rows_of(result, path="shm")[0]["placement"] == "mixed"


@pytest.mark.parametrize("name", ["training"])
def test_a_row_tells_what_a_training_loop_lost_and_what_the_streams_got(result: dict[str, Any]) -> None:
    (row,) = rows_of(result, kind="training", path="shm", again=False)
    assert row["loss_percent"] == pytest.approx(3.0)
    assert (row["telemetry_per_s"], row["camera_per_s"]) == (100.0, 30.0)


@pytest.mark.parametrize("name", ["steps"])
@pytest.mark.parametrize(
    "change",
    [
        *({key: None} for key in ("version", "rows", "ratios", "noise_floor", "verdict", "environment")),
        *({"times": "two"}, {"n": "600"}, {"us": {"p50": 1.0}}, {"surprise": 1}, {"reliable_to": "p42"}),
    ],
    ids=str,
)
def test_a_result_without_a_part_or_with_another_row_does_not_pass_the_schema(
    result: dict[str, Any], change: dict[str, Any]
) -> None:
    for key, value in change.items():
        if value is None:
            del result[key]
        else:
            result["rows"][0][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(result)))


# ratios


@pytest.mark.parametrize(
    ("name", "wanted", "ratio"),
    [
        ("steps", {"title": "One exchange, 1 env", "to": "grpc"}, 500),
        ("steps", {"title": "One exchange, 1 env, 50 a second", "to": "grpc"}, 500),
        ("steps", {"kind": "frame", "size": 4096, "to": "inproc"}, 4),
        ("commands", {"title": "small typed call, handler inline", "to": "grpc"}, 500),
        ("commands", {"title": "small typed call, handler pool, 50 a second", "to": "shm", "to_wait": "block"}, 4),
        ("commands", {"title": "stream of 1 kB messages, per message", "to": "grpc"}, 500),
        ("stubs", {"kind": "unary", "what": "pool", "rate_hz": None, "to": "grpc-tcp"}, 20),
        ("stubs", {"kind": "unary", "what": "pool", "rate_hz": 50, "to": "grpc-unix"}, 15),
        ("stubs", {"kind": "unary", "what": "pool", "rate_hz": None, "to": "shm"}, 4),
        ("stubs", {"kind": "program", "to": "grpc-tcp"}, 20),
        ("training", {"kind": "luckyenv", "to": "grpc-tcp"}, 20),
        ("training", {"kind": "training", "to": "grpc"}, 970 / 800),
        ("training", {"kind": "training", "to": "inproc"}, 1),
    ],
)
def test_a_ratio_is_that_of_two_rows_that_differ_in_the_way_alone(
    name: str, result: dict[str, Any], wanted: dict[str, Any], ratio: float
) -> None:
    (found,) = (one for one in result["ratios"] if all(one[key] == value for key, value in wanted.items()))
    assert found["ratio"] == pytest.approx(ratio, rel=1e-3)
    assert found["low"] <= found["ratio"] <= found["high"]
    assert (found["of"], found["wait"]) == ("shm", "adaptive")
    assert found["main"] == (found["to"] not in ("shm", "limit"))
    assert found["sentence"]


@pytest.mark.parametrize("name", ["steps"])
def test_the_native_limit_is_compared_and_decides_no_verdict(result: dict[str, Any]) -> None:
    assert any(one["to"] == "limit" and one["word"] == "SLOWER" for one in result["ratios"])
    assert result["verdict"]["word"] == "FASTER"
    assert "each judged alone" in result["verdict"]["sentence"]


# targets


@pytest.mark.parametrize(
    ("name", "target", "word", "measured"),
    [
        ("steps", "1 env, exchange: legacy gRPC over shm", "PASS", 500),
        ("steps", "in place: 4096 envs over 1 env", "NOT MEASURED", None),
        ("commands", "small typed call, inline, adaptive: gRPC over shm", "PASS", 500),
        ("commands", "small typed call, pool, block: gRPC over shm", "PASS", 125),
        ("commands", "1280x720 RGBA as views: gRPC over shm", "PASS", 500),
        ("stubs", "unary, pool, adaptive: gRPC over a unix socket over shm", "PASS", 15),
        ("stubs", "unary, pool, block: gRPC over TCP over shm", "PASS", 5),
        ("stubs", "16 concurrent callers: gRPC over TCP over shm", "PASS", 20),
        ("stubs", "CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP", "PASS", 0.1),
        ("training", "training loop of 1 ms steps: rate lost beside two streams", "PASS", 3.0),
    ],
)
def test_a_target_is_met_missed_or_not_measured(
    name: str, result: dict[str, Any], target: str, word: str, measured: float | None
) -> None:
    found = {one["name"]: one for one in check_targets(result, TARGETS[name])}
    assert len(found) == len(TARGETS[name])
    assert found[target]["measured"] == (measured and pytest.approx(measured, rel=0.1))
    assert found[target]["word"] == word


@pytest.mark.parametrize(
    ("name", "wanted", "figure", "factor", "target"),
    [
        ("steps", {"kind": "exchange", "path": "shm"}, "us.p50", 10, "1 env, exchange: legacy gRPC over shm"),
        (
            "commands",
            {"kind": "stream", "path": "shm", "wait": "adaptive"},
            "us.p50",
            200,
            "stream of 1 kB messages: gRPC over shm",
        ),
        (
            "stubs",
            {"kind": "unary", "what": "pool", "path": "shm"},
            "cpu_us_each.engine",
            10,
            "CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP",
        ),
        (
            "training",
            {"kind": "training"},
            "loss_percent",
            1.7,
            "training loop of 1 ms steps: rate lost beside two streams",
        ),
    ],
)
def test_a_missed_target_fails(
    name: str, result: dict[str, Any], wanted: dict[str, Any], figure: str, factor: float, target: str
) -> None:
    assert words_of(name, result)[target] == "PASS"
    *keys, last = figure.split(".")
    for row in rows_of(result, **wanted):
        for key in keys:
            row = row[key]
        row[last] *= factor
    assert words_of(name, result)[target] == "FAIL"


@pytest.mark.parametrize("name", ["commands", "stubs"])
def test_without_grpc_in_the_run_no_target_is_measured(name: str, result: dict[str, Any]) -> None:
    result["rows"] = rows_of(result, path="shm")
    assert set(words_of(name, result).values()) == {"NOT MEASURED"}


@pytest.mark.parametrize("name", ["commands"])
def test_pictures_of_another_size_prove_nothing(name: str, result: dict[str, Any]) -> None:
    result["options"]["width"] = 64
    assert words_of(name, result)["1280x720 RGBA as views: gRPC over shm"] == "NOT MEASURED"


def test_every_target_of_steps_is_of_rows_that_a_whole_run_has() -> None:
    prepared = steps.prepare(steps.plan_of(steps.IDLE, ("grpc", "shm"), None, None, rounds=6, quick=False))
    cells = [{key: getattr(cell, key) for key in cell.__slots__} for case in prepared.cases for cell in case.cells]
    for target in TARGETS["steps"]:
        assert target.numerator in cells, target.name
        assert target.denominator in cells, target.name


# what is shown


@each_suite
def test_page_markdown_and_terminal_show_all_rows_and_targets(
    name: str, result: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result["targets"] = check_targets(result, TARGETS[name])
    show_bench(result)
    page, markdown, terminal = bench_page(result), bench_markdown(result), capsys.readouterr().out
    assert all(result["verdict"]["word"] in text for text in (page, markdown, terminal))
    for title in {row["title"] for row in result["rows"]}:
        assert title in page
        assert title in markdown
        assert title in terminal.splitlines(), "the head of a table"
    for one in result["targets"]:
        assert one["name"] in page
        assert one["name"] in terminal
        assert one["word"] in markdown
    assert "bench.json" in page


@pytest.mark.parametrize("name", ["stubs"])
@pytest.mark.usefixtures("without_charts")
def test_each_kind_of_call_is_one_big_number_beside_what_a_switch_leaves(result: dict[str, Any]) -> None:
    kinds = {one["title"] for one in result["ratios"] if one["main"]}
    assert bench_page(result).count("<li><b>") == len(kinds) < sum(one["main"] for one in result["ratios"])
    assert bench_markdown(result).count("**1.00×**") == len(rows_of(result, wait="adaptive"))


@pytest.mark.parametrize("name", ["stubs"])
@pytest.mark.usefixtures("without_charts")
def test_what_was_looked_at_while_timing_is_said_once_and_not_in_the_verdict(result: dict[str, Any]) -> None:
    page = bench_page(result)
    (sentence,) = (one for one in result["verdict"]["beside"] if "ooked at" in one)
    assert page.count(sentence) == 1
    assert page.index("</div>") < page.index("What was looked at while timing") < page.index(sentence)
