"""Where case functions become cases.

The name of a case is the name of its module, of its function and of its parameters; it is unique. A case over asyncio
has "aio_" before it.
"""

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """One comparison: `run(ends)` gives its record, which is awaited where the function is a coroutine.

    driver: "threads" or "asyncio" for a case of both, which gets that driver; "" for a case that gets the ends.
    """

    name: str
    function: Callable[..., Any]
    parameters: dict[str, Any]
    driver: str = ""

    def run(self, ends: Any) -> Any:
        """Run the case over these ends."""
        return self.function(ends, **self.parameters)


CASES: list[Case] = []


def case(function: Function) -> Function:
    """Make a case of a function of `ends`."""
    return each()(function)


def each(over: tuple[str, ...] = ("",), /, **choices: Any) -> Callable[[Function], Function]:
    """Make a case of every combination of these parameters; a dict has the choices of each driver.

    over: the drivers of a case that is written for several.
    """

    def register(function: Function) -> Function:
        for driver in over:
            module = function.__module__.rpartition(".")[2]
            prefix = "aio_" if driver == "asyncio" and not module.startswith("aio_") else ""
            offered = [choice[driver] if driver and isinstance(choice, dict) else choice for choice in choices.values()]
            for values in itertools.product(*offered):
                suffix = f"[{'-'.join(map(str, values))}]" if values else ""
                name = f"{prefix}{module}.{function.__name__}{suffix}"
                CASES.append(Case(name, function, dict(zip(choices, values, strict=True)), driver))
        return function

    return register


def quick(cases: Sequence[Case]) -> list[Case]:
    """Return of each function's cases the sixth part whose names have the lowest CRC-32, at least one."""
    kinds: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda case: zlib.crc32(case.name.encode())):
        kinds.setdefault(case.name.partition("[")[0], []).append(case)
    chosen = {case.name for kind in kinds.values() for case in kind[: -(-len(kind) // 6)]}
    return [case for case in cases if case.name in chosen]


def exhaustive(cases: Sequence[Case]) -> list[Case]:
    """Return all that are not quick."""
    chosen = {case.name for case in quick(cases)}
    return [case for case in cases if case.name not in chosen]
