"""The typed messages of every method: `from lucky_transport.messages import StepRequest`.

The classes are generated from proto/; a field that a newer peer appends is skipped, and an enum's value that only a
newer peer knows is a plain number.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lucky_transport.messages._generated import MODULE_OF

if TYPE_CHECKING:
    from lucky_transport.messages._generated import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Load a message class with its module at its first use: all of them together take some 80 ms."""
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}._generated.{MODULE_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULE_OF})
