"""The requests of a proof: to each method a row of valid ones and a row of corrupted ones, the same ones for a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import Method
from lucky_transport_migration.parity.invalid_requests import corrupt, unsendable
from lucky_transport_migration.parity.inventory import Known
from lucky_transport_migration.parity.request_generator import RequestGenerator
from lucky_transport_migration.parity.request_recipes import FITTING

__all__ = ["DrawnRequests", "Made"]

#: Of a hundred corrupted requests so many are such that no wire can carry them.
_UNSENDABLE = 20


@dataclass(frozen=True, slots=True)
class Made:
    """A request's message. is_unsendable: no wire can carry it."""

    message: Any
    is_unsendable: bool = False


class DrawnRequests:
    """Requests made from what is `known`, without end."""

    def __init__(self, known: Known, seed: int) -> None:
        self._known = known
        self._seed = seed
        self._rows: dict[str, RequestGenerator] = {}

    def valid(self, row: Method) -> Made:
        """Return the next request that the engine can be expected to answer."""
        return Made(self._generator("valid", row).make(row.request))

    def corrupted(self, row: Method) -> Made:
        """Return the next one that something is wrong with."""
        make = self._generator("corrupted", row)
        message = make.make(row.request)
        if fields_of(row.request) and make.chance(_UNSENDABLE):
            return Made(unsendable(message, make), is_unsendable=True)
        return Made(corrupt(message, make))

    def _generator(self, kind: str, row: Method) -> RequestGenerator:
        key = f"{self._seed} {kind} {row.name}"
        return self._rows.setdefault(key, RequestGenerator(self._known, key, FITTING))
