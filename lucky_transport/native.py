"""Loading the native modules, which are optional: without them everything runs in Python."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["load_native"]

_REMEDY = "install a C compiler and run the install command again"


def load_native(name: str, version: int) -> tuple[ModuleType | None, str]:
    """Return the module `name` and "", or None and why it cannot be used, with the remedy.

    A module of another version is a stale build and counts as absent.
    """
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        why = "was not built" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded ({error})"
        return None, f"the native module {why}: {_REMEDY}"
    found = getattr(module, "VERSION", None)
    if found is None:  # the folder of its sources can be imported, too
        return None, f"the native module was not built: {_REMEDY}"
    if found != version:
        return (
            None,
            f"the native module is of version {found}, this code needs {version}: run the install command again",
        )
    return module, ""
