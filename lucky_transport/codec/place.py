"""Where in a message something is wrong.

Rule 1: whoever finds the fault knows the values, whoever called it knows the name; the path is put together on the way
        up, so that the way down costs nothing.
Rule 2: a `Misfit` never leaves this package; `flatbuffers` turns it into what the caller expects.
"""

from __future__ import annotations

__all__ = ["Misfit"]


class Misfit(Exception):
    """A value or a byte that does not fit; `kind` is what a caller who gave a wrong value is told (his own fault)."""

    def __init__(self, text: str, kind: type[TypeError] | type[ValueError] = ValueError) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        self._path = ""

    def within(self, part: str) -> Misfit:
        """Return this misfit with `part` (".field" or "[index]") put in front of its path."""
        self._path = part + self._path
        return self

    def place(self, root: str) -> str:
        """Return the whole path, led by the name of the root message: "AgentSchema.action_names[2]"."""
        return root + self._path
