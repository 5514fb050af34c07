"""What changed between two runs of one suite: `bench --compare OLD.json`.

Only rows with equal keys are compared, and only a difference beyond both runs' noise is called a change. Figures of two
machines are never compared row by row without saying that the machines differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError
from lucky_transport.nesting import parse_json
from lucky_transport_migration.bench.reading import group_title, way
from lucky_transport_migration.bench.stats import Word, change, changed, ratio_between_runs

__all__ = ["changes", "read_result"]

Result = Mapping[str, Any]

_KEYS = (
    *("suite", "level", "kind", "what", "path", "wait", "num_envs", "engine", "actions", "observations", "copy"),
    *("rate_hz", "frame_bytes"),
)
_MACHINE = ("cpu", "usable_cores", "machine", "kernel", "virtual_machine", "python")
_REMEDY = "pass the bench.json that an earlier `lucky-transport bench --report` wrote"


def read_result(path: Path, suite: str) -> dict[str, Any]:
    """Return the result in that file. Raises ConfigError when it holds none, or that of another suite."""
    try:
        found: Any = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--compare {str(path)!r}: {error.strerror}", hint=_REMEDY) from error
    except ValueError as error:
        raise ConfigError(f"--compare {str(path)!r} is no JSON: {error}", hint=_REMEDY) from error
    if not isinstance(found, dict) or found.get("version") != 1 or not isinstance(found.get("rows"), list):
        raise ConfigError(f"--compare {str(path)!r} holds no result of a bench", hint=_REMEDY)
    theirs = found.get("suite", "step")
    if theirs != suite:
        raise ConfigError(f"--compare {str(path)!r} is of suite {theirs!r}, not {suite!r}", hint=_REMEDY)
    return found


def changes(old: Result, new: Result) -> dict[str, Any]:
    """Return what became of each row that both runs have, and what differs between the machines."""
    before = {_key(row): row for row in old["rows"]}
    rows: list[dict[str, Any]] = []
    for row in new["rows"]:
        earlier = before.pop(_key(row), None)
        if earlier is not None:
            rows.append(_change(earlier, row, max(_floor(old, earlier), _floor(new, row))))
    machines = old["environment"], new["environment"]
    differs = [
        f"{key}: {machines[0].get(key)} before, {machines[1].get(key)} now"
        for key in _MACHINE
        if machines[0].get(key) != machines[1].get(key)
    ]
    return {
        "sentence": changed([Word(one["word"]) for one in rows]),
        "before": {"command": old["command"], "git": machines[0].get("git")},
        "machine_differs": differs,
        "rows": rows,
        "only_before": len(before),
        "only_now": len(new["rows"]) - len(rows),
    }


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in _KEYS)


def _floor(result: Result, row: Mapping[str, Any]) -> float:
    """Return the A/A floor of the row's kind; of one that has none, that of the run."""
    found = row.get("floor") or (result["noise_floor"] or {"floor": 1.0})["floor"]
    return float(found)


def _change(old: Mapping[str, Any], new: Mapping[str, Any], floor: float) -> dict[str, Any]:
    interval = ratio_between_runs(_p50s(new), _p50s(old))
    interval = replace(interval, rounds=min(old["rounds"], new["rounds"]))
    what = f"{group_title(new)}, {way(new)}"
    verdict = change(what, interval, floor)
    return {
        "what": what,
        "before_us": old["us"]["p50"],
        "now_us": new["us"]["p50"],
        **interval.row(),
        "word": verdict.word.value,
        "sentence": verdict.sentence,
    }


def _p50s(row: Mapping[str, Any]) -> list[float]:
    """Return the rounds' p50; of a row that does not give them, the lowest, the middle and the highest."""
    us = row["us"]
    return list(row.get("p50s") or (us["p50_min"], us["p50"], us["p50_max"]))
