"""Where case functions become cases.

The name of a case is the name of its module, of its function and of its parameters; it is unique.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """One comparison: `run(ends)` gives its record; of an asyncio case it must be awaited."""

    name: str
    function: Callable[..., Any]
    parameters: dict[str, Any]

    def run(self, ends: Any) -> Any:
        """Run the case over these ends."""
        return self.function(ends, **self.parameters)


CASES: list[Case] = []


def case(function: Function) -> Function:
    """Make a case of a function of `ends`."""
    return each()(function)


def each(**choices: Iterable[Any]) -> Callable[[Function], Function]:
    """Make a case of every combination of these parameters."""

    def register(function: Function) -> Function:
        module = function.__module__.rpartition(".")[2]
        for values in itertools.product(*choices.values()):
            suffix = f"[{'-'.join(map(str, values))}]" if values else ""
            CASES.append(
                Case(f"{module}.{function.__name__}{suffix}", function, dict(zip(choices, values, strict=True)))
            )
        return function

    return register
