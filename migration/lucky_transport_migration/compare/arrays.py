"""Where two tables of named arrays first differ, frames and descriptions of batches too.

Bits are compared, unless a rule of the project says otherwise, not numbers: 0.0 and -0.0 differ, a NaN equals the same
NaN, dtype and shape count. A row of [parity.fields] for an array, "observation" or "info.*", makes it tolerant or
leaves it out. An answer is a flat table of named arrays; the names are what a report says ("observation",
"info.final_obs"). Bits decide first; a tolerance can only pardon. NaN and infinity are close to nothing; a NaN equals
every NaN, or none, as the rule says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.composite import observation_fields
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import flat
from lucky_transport.transport import Frame
from lucky_transport_migration.compare.difference import AtMove, Difference, LocatedDifference
from lucky_transport_migration.compare.rules import EXACT, ComparisonRules, Rule

#: A named set of arrays, each with one row per env, or of a single value that all envs share.
Answer = Mapping[str, NDArray[Any]]


def first_difference(a: Answer, b: Answer, rules: ComparisonRules | None = None) -> Difference | None:
    """Return where two answers first differ, array by array in the order of `a`; None if nowhere.

    A rule for "observation" counts for its parts too, one for "signals" for each of them.
    """
    for name in [*a, *(key for key in b if key not in a)]:
        rule = EXACT if rules is None else array_rule(rules, name)
        x, y = a.get(name), b.get(name)
        if rule.skip:
            continue
        if x is None or y is None:
            mine, other = ("absent" if one is None else "present" for one in (x, y))
            return Difference("item", name, mine, other)
        if x.dtype != y.dtype or x.shape != y.shape:
            return Difference("item", name, f"{x.dtype} {x.shape}", f"{y.dtype} {y.shape}")
        at = _first_unequal(x, y, rule)
        if at is not None:
            return Difference("item", name, _element(x[at]), _element(y[at]), at[0] if at else None, at[1:])
    return None


def _element(value: np.generic) -> Any:
    """Return an element as a report shows it: of a NaN the bits, which all that it differs in may be."""
    is_nan = value.dtype.kind == "f" and np.isnan(value)
    return f"nan (0x{value.tobytes()[::-1].hex()})" if is_nan else value.item()


def left_out(answer: Answer, rules: ComparisonRules) -> Iterator[tuple[str, str]]:
    """Yield (name, why) of the arrays that rules leave out."""
    yield from ((name, why) for name in answer if (why := array_rule(rules, name).skip))


def array_rule(rules: ComparisonRules, field: str) -> Rule:
    """Return the rule of an array: its own, or that of the whole that it is of. A name goes before a pattern."""
    whole, group = field.partition("[")[0], field.partition(".")[0]
    names = (field, whole, f"{whole}s", group)  # frames have observations and rewards
    named = (rules.rows[name] for name in names if name in rules.rows)
    matching = (rule for own in names[1:] if (rule := rules.rule(field, own)) is not EXACT)
    return next(named, None) or next(matching, EXACT)


def _first_unequal(x: NDArray[Any], y: NDArray[Any], rule: Rule) -> tuple[int, ...] | None:
    """Return the index of the first element that differs; both have one dtype and shape."""
    if rule is not EXACT and x.dtype.kind in "fiu":
        return first_unequal_number(x, y, rule)
    bytes_x = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    bytes_y = np.ascontiguousarray(y).reshape(-1).view(np.uint8)
    unequal = bytes_x != bytes_y
    if not unequal.any():
        return None
    flat = int(np.argmax(unequal)) // x.dtype.itemsize
    return tuple(int(i) for i in np.unravel_index(flat, x.shape))


def flatten(info: Mapping[str, Any], prefix: str = "info") -> dict[str, NDArray[Any]]:
    """Return an info dict as a flat table; rows that Gymnasium's mask "_<name>" declares invalid are zeroed.

    Values that are no arrays become arrays of one element, so that nothing escapes the comparison.
    """
    table: dict[str, NDArray[Any]] = {}
    for key in sorted(info):
        name, value = f"{prefix}.{key.replace('/', '.', 1)}", info[key]  # "group/column" is a column of a group
        if isinstance(value, Mapping):
            table |= flatten(value, name)
            continue
        if isinstance(value, tuple):
            table |= {place: np.array(part) for place, part in flat(name, value).items()}
            continue
        array = np.asarray(value)
        if array.dtype == object:
            array = np.array([repr(one) for one in array.reshape(-1)])
        mask = info.get(f"_{key}")
        if isinstance(mask, np.ndarray) and array.shape[:1] == mask.shape and not mask.all():
            array = array.copy()
            array[~mask] = np.zeros((), array.dtype)
        table[name] = np.atleast_1d(array)
    return table


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


_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


def first_unequal_number(left: NDArray[Any], right: NDArray[Any], rule: Rule = EXACT) -> tuple[int, ...] | None:
    """Return the index of the first element that differs, None if none does. Both have one dtype and shape."""
    differ = _unequal_floats(left, right, rule) if left.dtype.kind == "f" else left != right
    if differ.any() and rule.tolerant:
        differ &= ~_close(left, right, rule)
    if not differ.any():
        return None
    return tuple(int(one) for one in np.unravel_index(int(np.argmax(differ)), left.shape))


def _unequal_floats(left: NDArray[Any], right: NDArray[Any], rule: Rule) -> NDArray[np.bool_]:
    unsigned = _UNSIGNED[left.dtype.itemsize]
    bits = np.ascontiguousarray(left).view(unsigned) != np.ascontiguousarray(right).view(unsigned)
    if rule.nan == "different":
        return bits | np.isnan(left) | np.isnan(right)
    return bits & ~(np.isnan(left) & np.isnan(right)) if bits.any() else bits


def _close(left: NDArray[Any], right: NDArray[Any], rule: Rule) -> NDArray[np.bool_]:
    if left.dtype.kind != "f":
        distance = _steps_between(left, right)
        largest = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
        return (distance <= max(rule.abs, rule.ulp)) | (distance <= rule.rel * largest)
    finite = np.isfinite(left) & np.isfinite(right)
    x, y = np.where(finite, left, 0).astype(np.float64), np.where(finite, right, 0).astype(np.float64)
    with np.errstate(over="ignore"):
        distance, largest = np.abs(x - y), np.maximum(np.abs(x), np.abs(y))
        close = (distance <= rule.abs) | (distance <= rule.rel * largest)
    if rule.ulp:
        close |= _steps_between(_ordered(left), _ordered(right)) <= rule.ulp
    return close & finite


def _ordered(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers in the order of the numbers, neighbours one apart, both zeros the same."""
    bits = np.ascontiguousarray(numbers).view(_SIGNED[numbers.dtype.itemsize])
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


def _steps_between(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return the distances of integers; they fit unsigned ones of the same width, however far apart these are."""
    distance = np.maximum(left, right) - np.minimum(left, right)
    return distance.view(f"u{distance.dtype.itemsize}") if distance.dtype.kind == "i" else distance
