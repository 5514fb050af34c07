"""The published schema says what every suite writes, and nothing else passes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.suites import commands, training
from lucky_transport_migration.bench.suites.steps import STEP_TARGETS

jsonschema: Any = pytest.importorskip(
    "jsonschema", reason="jsonschema is not installed: pip install 'lucky-transport[dev]'"
)

SCHEMA = json.loads((Path(__file__).parents[3] / "schema" / "bench.schema.json").read_text())


def check(result: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(result, allow_nan=False)))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.exhaustive
def test_a_bench_of_steps_keeps_to_it(bench_result: dict[str, Any]) -> None:
    check(bench_result)
    bench_result["targets"] = targets.check(bench_result, STEP_TARGETS)
    check(bench_result)


@pytest.mark.parametrize("suite", [commands, training])
def test_a_suite_of_calls_keeps_to_it(suite: Any) -> None:
    prepared = suite.prepare(("inproc",), None, rounds=1, quick=True)
    result = prepared.run("lucky-transport bench")
    result["targets"] = targets.check(result, prepared.suite.targets)
    check(result)


@pytest.mark.parametrize("key", ["version", "rows", "ratios", "noise_floor", "verdict", "environment"])
def test_a_result_without_a_part_does_not_pass(bench_result: dict[str, Any], key: str) -> None:
    del bench_result[key]
    with pytest.raises(jsonschema.ValidationError):
        check(bench_result)


@pytest.mark.parametrize(
    ("key", "value"), [("times", "two"), ("n", "600"), ("us", {"p50": 1.0}), ("surprise", 1), ("reliable_to", "p42")]
)
def test_a_row_of_another_shape_does_not_pass(bench_result: dict[str, Any], key: str, value: Any) -> None:
    wrong = copy.deepcopy(bench_result)
    wrong["rows"][0][key] = value
    with pytest.raises(jsonschema.ValidationError):
        check(wrong)
