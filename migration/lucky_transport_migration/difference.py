"""Where two answers first differ, bit for bit unless a rule of the project says otherwise.

Bits are compared, not numbers: 0.0 and -0.0 differ, a NaN equals the same NaN, dtype and shape count. A row of
[parity.fields] for an array, "observation" or "info.*", makes it tolerant or leaves it out. An answer is a flat table
of named arrays; the names are what a report says ("observation", "info.final_obs").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.composite import flat
from lucky_transport_migration.evidence.numbers import first_unequal_number
from lucky_transport_migration.evidence.rule import EXACT, Rule
from lucky_transport_migration.evidence.rules import ComparisonRules

__all__ = ["Difference", "array_rule", "first_difference", "flatten"]

#: A named set of arrays, each with one row per env.
Answer = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two answers differ.

    `index` is the position inside `env`'s row (empty for one number per env), `values` what each side holds there.
    `env` is None when the difference is no single element's (another dtype or shape, a field only one side has).
    """

    mode: str
    step: int
    event: str
    field: str
    env: int | None
    index: tuple[int, ...]
    values: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"index": list(self.index)}

    def sentence(self) -> str:
        """Return it as one sentence."""
        index = list(self.index) if self.index else ""
        is_part = self.field.endswith("]")  # spelled as its element would be reached
        name = f"{self.field}{index}" if is_part else self.field
        place = "" if self.env is None else f" of env {self.env}"
        place += f" at {index}" if index and not is_part else ""
        values = ", ".join(f"{name} {value!r}" for name, value in self.values.items())
        return f"{name}{place} differs in {self.event} {self.step} ({self.mode}): {values}"


def first_difference(
    a: tuple[str, Answer],
    b: tuple[str, Answer],
    *,
    mode: str,
    step: int,
    event: str,
    rules: ComparisonRules | None = None,
) -> Difference | None:
    """Return where the named answers `a` and `b` first differ, field by field in the order of `a`; None if nowhere.

    A rule for "observation" counts for its parts too, one for "signals" for each of them.
    """
    (name_a, answer_a), (name_b, answer_b) = a, b

    def found(field: str, env: int | None, index: Sequence[int], value_a: Any, value_b: Any) -> Difference:
        return Difference(mode, step, event, field, env, tuple(index), {name_a: value_a, name_b: value_b})

    for field in [*answer_a, *(key for key in answer_b if key not in answer_a)]:
        rule = EXACT if rules is None else array_rule(rules, field)
        x, y = answer_a.get(field), answer_b.get(field)
        if rule.skip:
            continue
        if x is None or y is None:
            return found(field, None, (), *("absent" if one is None else "present" for one in (x, y)))
        if x.dtype != y.dtype or x.shape != y.shape:
            return found(field, None, (), f"{x.dtype} {x.shape}", f"{y.dtype} {y.shape}")
        at = _first_unequal(x, y, rule)
        if at is not None:
            return found(field, at[0], at[1:], _plain(x[at]), _plain(y[at]))
    return None


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


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a JSON value; JSON has no NaN and no infinity, so those become text."""
    number = value.item()
    return number if not isinstance(number, float) or math.isfinite(number) else str(number)


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
