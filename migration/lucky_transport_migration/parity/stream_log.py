"""Whether handlers of streams run in an engine, whatever its clients think: asked after a proof has left a stream.

The engine's process adds a byte to a file when a handler begins, and another one when it has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from lucky_transport.deadline import Deadline
from lucky_transport.interceptors import CallDetails, Interceptor

_BEGINS, _ENDS = b"+", b"-"
_LOOK_S = 0.002


class StreamLog(Interceptor):
    """Notes in the file `path` which streams of an engine run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def intercept_stream(
        self, continuation: Callable[[CallDetails, Any], Any], details: CallDetails, request: Any
    ) -> Any:
        stream = continuation(details, request)
        self._note(_BEGINS)
        stream.add_end_callback(lambda _: self._note(_ENDS))
        return stream

    @property
    def name(self) -> str:
        """What the setting `interceptors` calls it."""
        return f"stream-log:{quote(str(self._path))}"

    def _note(self, what: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(what)

    def is_quiet(self, within_s: float) -> bool:
        """Wait until no stream runs; False where one still does after `within_s`."""
        deadline = Deadline(within_s)
        while self._path.exists() and (noted := self._path.read_bytes()).count(_BEGINS) > noted.count(_ENDS):
            if deadline.expired:
                return False
            time.sleep(_LOOK_S)
        return True


def make_interceptor(variant: str) -> StreamLog:
    """Return the interceptor that the setting `interceptors` names."""
    return StreamLog(Path(unquote(variant)))
