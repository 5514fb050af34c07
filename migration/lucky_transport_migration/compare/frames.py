"""A frame as named arrays, and a batch's description as named values: what every comparison of exchanges looks at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.composite import observation_fields
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame
from lucky_transport_migration.compare.arrays import array_rule
from lucky_transport_migration.compare.difference import AtMove, Difference, LocatedDifference
from lucky_transport_migration.compare.rules import ComparisonRules


class FrameTables:
    """Makes tables of one side's frames, numbered from the first one: its engine may have been stepped before."""

    def __init__(self, spec: BatchSpec) -> None:
        self._spec = spec
        self._first: int | None = None

    def table(self, frame: Frame, out_of_bounds: int) -> dict[str, NDArray[Any]]:
        """Return a frame as named arrays, copied, one row per env; signals by the names of their terms.

        any_ended: whether it tells truly; it may be True where no env ended. out_of_bounds: of the transport.
        """
        if self._first is None:
            self._first = frame.seq
        spec, terminated, truncated = self._spec, frame.terminated != 0, frame.truncated != 0
        table: dict[str, NDArray[Any]] = {
            **observation_fields(spec, frame.observations.copy(), "observation"),
            "reward": frame.rewards.copy(),
            "terminated": terminated,
            "truncated": truncated,
        }
        for name, row in zip((*spec.reward_terms, *spec.termination_terms), frame.signals, strict=True):
            table[f"signals.{name}"] = row.copy()
        tells = frame.any_ended or not (terminated.any() or truncated.any())
        of_all = {"any_ended": tells, "out_of_bounds": out_of_bounds, "seq": frame.seq - self._first}
        return table | {name: np.array(value) for name, value in of_all.items()}


def spec_difference(specs: Mapping[str, BatchSpec], mode: str, rules: ComparisonRules) -> LocatedDifference | None:
    """Return where a batch is described otherwise than the first one, field by field of its JSON; None if nowhere."""
    (first, mine), *others = ((name, dict(_fields("spec", json.loads(spec.to_json())))) for name, spec in specs.items())
    for name, other in others:
        for field in {**mine, **other}:
            x, y = (fields.get(field, "absent") for fields in (mine, other))
            if json.dumps(x) != json.dumps(y) and not array_rule(rules, field).skip:
                return LocatedDifference(Difference("item", field, x, y), (first, name), AtMove(mode, 0, "spec"))
    return None


def _fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, inner in value.items():
        yield from _fields(f"{name}.{key}", inner)
