"""`bench --options`: the engine that is measured gets them."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from lucky_transport.cli.main import cli
from lucky_transport_migration.bench.suites import steps


class _Planned(Exception):
    pass


def _options_of(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """Return the engine and the options that `bench` plans with; nothing is measured."""
    planned: list[tuple[str, dict[str, Any]]] = []

    def plan(engine: str, *rest: Any, **how: Any) -> None:
        planned.append((engine, next(value for value in rest if isinstance(value, dict))))
        raise _Planned

    monkeypatch.setattr(steps, "plan_of", plan)
    done = CliRunner().invoke(cli, ["bench", *arguments])
    assert isinstance(done.exception, _Planned), done.output
    return planned[0]


def test_the_engine_that_is_measured_gets_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = "libenv:./libmaze.so"
    assert _options_of([engine], monkeypatch) == (engine, {})
    assert _options_of([engine, "--options", '{"num_levels": 10}'], monkeypatch) == (engine, {"num_levels": 10})


def test_options_of_the_toy_go_over_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _options_of(["--obs-size", "8", "--options", '{"act_size": 3, "hold": false}'], monkeypatch) == (
        "toy:idle",
        {"obs_size": 8, "act_size": 3, "hold": False},
    )


def test_a_suite_with_its_own_engine_takes_no_options() -> None:
    done = CliRunner().invoke(cli, ["bench", "--suite", "commands", "--options", '{"obs_size": 8}'])
    assert done.exit_code == 2
    assert "has an engine of its own" in done.output
    assert "--options" in done.output


def test_options_that_are_no_object_are_refused() -> None:
    done = CliRunner().invoke(cli, ["bench", "--options", "[1]"])
    assert done.exit_code == 2
    assert "is no JSON object" in done.output


@pytest.mark.exhaustive
def test_an_engine_with_composite_spaces_is_measured() -> None:
    arguments = ["bench", "toy:composite", "--quick", "--num-envs", "1", "--between", "shm", "--json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
