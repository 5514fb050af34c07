"""The requests of a proof: to each method a row of valid ones and a row of corrupted ones, the same ones for a seed.

In corrupted ones some fields have what the table of cases knows. Others are such that no wire can carry them: a number
out of its type's range, a value of another type, text that is none. A client has to refuse those before anything is
sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import Method
from lucky_transport_migration.parity.inventory import Known
from lucky_transport_migration.parity.request_recipes import fitting, named
from lucky_transport_migration.parity.request_table import RequestTable

#: Of the corrupted requests so many are such that no wire can carry them.
_UNSENDABLE = 0.2

_NOT_OF_KIND: Mapping[str, tuple[Any, ...]] = {
    "i32": (2**31, -(2**31) - 1, 1.5, "7"),
    "u32": (-1, 2**32, 1.5, "7"),
    "u64": (-1, 2**64, 1.5, "7"),
    "f32": ("1.0", [1.0], 1e39, 10**400),
    "f64": ("1.0", [1.0], 10**400),
    "bool": ("yes", [True]),
    "str": ("\ud800", 7, b"text"),
    "bytes": ("text", 7),
    "message": (5, "text", [1]),
    "struct": (5, "text", [1]),
}


@dataclass(frozen=True, slots=True)
class Made:
    """A request's message. is_unsendable: no wire can carry it."""

    message: Any
    is_unsendable: bool = False


class DrawnRequests:
    """Requests made from what is `known`, without end."""

    def __init__(self, known: Known, seed: int) -> None:
        self._table = RequestTable(partial(named, known), partial(fitting, known))
        self._seed = seed
        self._randoms: dict[str, Random] = {}

    def valid(self, row: Method) -> Made:
        """Return the next request that the engine can be expected to answer."""
        return Made(self._table.random(row.request, self._random("valid", row), 0.0))

    def corrupted(self, row: Method) -> Made:
        """Return the next one that something is wrong with."""
        random = self._random("corrupted", row)
        if fields_of(row.request) and random.random() < _UNSENDABLE:
            return Made(_unsendable(self._table.random(row.request, random, 0.0), random), is_unsendable=True)
        return Made(self._table.random(row.request, random, random.uniform(0.5, 1.0)))

    def _random(self, kind: str, row: Method) -> Random:
        key = f"{self._seed} {kind} {row.name}"
        return self._randoms.setdefault(key, Random(key))


def _unsendable(request: Any, random: Random) -> Any:
    """Return the request with one value that no wire can carry."""
    field = random.choice(fields_of(type(request)))
    inner = getattr(request, field.name)
    if field.shape == "one" and field.message is not None and inner is not None and random.random() < 0.6:
        return replace(request, **{field.name: _unsendable(inner, random)})
    wrong = random.choice(_NOT_OF_KIND[field.kind])
    if field.shape != "one":
        wrong = random.choice(([wrong] if field.shape == "list" else {"key": wrong}, None, 5))
    return replace(request, **{field.name: wrong})
