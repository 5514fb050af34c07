"""The requests of a proof: to each method a row of valid ones and a row of corrupted ones, made by hypothesis.

The same seed makes the same requests with the same version of hypothesis. A method that has fewer different requests
than are asked for gets them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import Method
from lucky_transport_migration.parity.invalid_requests import corrupt, unsendable
from lucky_transport_migration.parity.inventory import Known
from lucky_transport_migration.parity.request_generator import RequestGenerator
from lucky_transport_migration.parity.request_recipes import FITTING

__all__ = ["DrawnRequests", "Made", "corrupted_requests", "valid_requests"]

#: One in so many corrupted requests is such that no wire can carry it.
_CORRUPTED_PER_UNSENDABLE = 5


@dataclass(frozen=True, slots=True)
class Made:
    """A request's message. is_unsendable: no wire can carry it."""

    message: Any
    is_unsendable: bool = False


class DrawnRequests:
    """Requests made from what is `known`, `count` of a kind; callers must not change them."""

    def __init__(self, known: Known, count: int, seed: int) -> None:
        self._known = known
        self._count = count
        self._seed = seed
        self._rows: dict[tuple[str, str], Iterator[Made]] = {}

    def valid(self, row: Method) -> Made:
        """Return the next request that the engine can be expected to answer."""
        return self._next("valid", valid_requests, row)

    def corrupted(self, row: Method) -> Made:
        """Return the next one that something is wrong with."""
        return self._next("corrupted", corrupted_requests, row)

    def _next(self, kind: str, strategy: Callable[[Known, Method], st.SearchStrategy[Made]], row: Method) -> Made:
        key = kind, row.name
        if key not in self._rows:
            self._rows[key] = cycle(_examples(strategy(self._known, row), self._count, f"{self._seed} {key}"))
        return next(self._rows[key])


@st.composite
def valid_requests(draw: DrawFn, known: Known, row: Method) -> Made:
    """Return the strategy of requests that an engine of these things can be expected to answer."""
    return Made(RequestGenerator(known, draw, FITTING).make(row.request))


@st.composite
def corrupted_requests(draw: DrawFn, known: Known, row: Method) -> Made:
    """Return the strategy of requests that something is wrong with."""
    make = RequestGenerator(known, draw, FITTING)
    message = make.make(row.request)
    if fields_of(row.request) and make.integer(1, _CORRUPTED_PER_UNSENDABLE) == _CORRUPTED_PER_UNSENDABLE:
        return Made(unsendable(message, make), is_unsendable=True)
    return Made(corrupt(message, make))


def _examples(strategy: st.SearchStrategy[Made], count: int, key: str) -> list[Made]:
    """Return up to `count` different values of the strategy, the simplest one first."""
    found: list[Made] = []
    plan = settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
    )

    @seed(key)
    @plan
    @given(strategy)
    def collect(made: Made) -> None:
        found.append(made)

    collect()
    return found
