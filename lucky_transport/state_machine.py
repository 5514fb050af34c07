"""Where something stands, by a table of what may follow what."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from lucky_transport.errors import LocalProtocolError, TransportError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class StateMachine(Generic[S, E]):
    """A state and its table: by state, the state that follows each event that can happen in it.

    `on` is the only way to change `state`. An event that the table does not list raises, and changes nothing.
    """

    __slots__ = ("_table", "backend", "state")

    def __init__(self, table: Mapping[S, Mapping[E, S]], state: S, backend: str = "") -> None:
        self._table = table
        self.state = state
        self.backend = backend

    def allows(self, event: E) -> bool:
        """True when `event` can happen now."""
        return event in self._table[self.state]

    def on(self, event: E) -> None:
        """Go to the state that follows `event`. Raises `state_error`."""
        following = self._table[self.state].get(event)
        if following is None:
            raise self.state_error(event)
        self.state = following

    def state_error(self, event: E) -> TransportError:
        """Return the error that explains why `event` cannot happen now: by default, a mistake of the caller."""
        possible = ", ".join(str(each.value) for each in self._table[self.state])
        return LocalProtocolError(
            f"{event.value} is not possible in state {self.state.value!r}",
            backend=self.backend,
            hint=f"possible: {possible or 'nothing'}",
        )
