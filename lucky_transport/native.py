"""The native module, loaded when one of its names is first used; `native.pyi` says what each is.

What only looks around, such as `lucky-transport doctor`, runs where the module was not built.
"""

from __future__ import annotations

import importlib
from typing import Any

from lucky_transport.errors import MissingExtra
from lucky_transport.limits import limit_reached

#: Of the interface in `native.pyi`: to be raised with each change of it.
VERSION = 35

_REMEDY = "run the install command again"


def problem() -> MissingExtra | None:
    """Return the ImportError that the use of a name raises, None where the module is loaded."""
    try:
        _load()
    except MissingExtra as error:
        return error
    return None


def _load() -> None:
    """Copy the module's names to this one. Raises MissingExtra where it was not built, or is a stale build."""
    try:
        module = importlib.import_module("lucky_transport._native")
    except ImportError as error:
        why = "was not built" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded ({error})"
        raise MissingExtra(f"the native module {why}", hint=limit_reached(error)[1] or _REMEDY) from error
    found = getattr(module, "VERSION", None)
    if found is None:  # the folder of its sources can be imported, too
        raise MissingExtra("the native module was not built", hint=_REMEDY)
    if found != VERSION:
        text = f"the native module is of version {found}, this code needs {VERSION}"
        raise MissingExtra(text, hint=_REMEDY)
    globals().update({name: value for name, value in vars(module).items() if not name.startswith("_")})


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        _load()
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
