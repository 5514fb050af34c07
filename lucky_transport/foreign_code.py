"""The way to call code of others: an engine, a world, a handler, a callback. It may raise anything, SystemExit too."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import is_interruption, raise_wire_error

_log = logging.getLogger("lucky_transport")


class foreign_code:  # noqa: N801 - no generator, see `within_limits`
    """Raise what the code inside raises as `raise_wire_error` does: EngineFailed that names the engine and `what`."""

    def __init__(self, engine: str, what: str) -> None:
        self._engine, self._what = engine, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                raise_wire_error(self._engine, self._what, error)
        finally:
            del error  # its traceback holds this frame


def import_problem(module: str) -> str:
    """Import a module that is optional. Return why it cannot be imported, whatever the reason; "" where it is there."""
    try:
        importlib.import_module(module)
    except BaseException as error:
        if is_interruption(error):
            raise
        return f"{type(error).__name__}: {error}"
    return ""


def run_unwaited(what: str, call: Callable[..., object], *args: Any) -> None:
    """Make a call whose outcome no caller waits for: what it raises goes to the log, and nothing else ends by it."""
    try:
        call(*args)
    except BaseException as error:
        if is_interruption(error):  # of the program's own thread
            raise
        _log.exception("%s failed", what)
