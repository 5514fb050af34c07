"""The way to call code of others: an engine, a world, a handler, a callback. It may raise anything, SystemExit too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from lucky_transport.errors import is_interruption, raise_wire_error

__all__ = ["foreign_code", "run_unwaited"]

_log = logging.getLogger("lucky_transport")


@contextmanager
def foreign_code(engine: str, what: str) -> Generator[None]:
    """Raise what the code inside raises as `raise_wire_error` does: EngineFailed that names the engine and `what`."""
    try:
        yield
    except BaseException as error:
        raise_wire_error(engine, what, error)


def run_unwaited(what: str, call: Callable[..., object], *args: Any) -> None:
    """Make a call whose outcome no caller waits for: what it raises goes to the log, and nothing else ends by it."""
    try:
        call(*args)
    except BaseException as error:
        if is_interruption(error):  # of the program's own thread
            raise
        _log.exception("%s failed", what)
