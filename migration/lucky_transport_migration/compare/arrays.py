"""Where two tables of named arrays first differ, bit for bit unless a rule of the project says otherwise.

Bits are compared, not numbers: 0.0 and -0.0 differ, a NaN equals the same NaN, dtype and shape count. A row of
[parity.fields] for an array, "observation" or "info.*", makes it tolerant or leaves it out. An answer is a flat table
of named arrays; the names are what a report says ("observation", "info.final_obs").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.composite import flat
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.numbers import first_unequal_number
from lucky_transport_migration.compare.rule import EXACT, Rule
from lucky_transport_migration.compare.rules import ComparisonRules

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
