"""Says what is waited for, once a wait has become long: silence looks like a hang."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["NOTICE_AFTER_S", "announced"]

_log = logging.getLogger("lucky_transport")

#: A wait that is over sooner is not worth a line.
NOTICE_AFTER_S = 2.0


@contextmanager
def announced(what: str, timeout_s: float | None = None) -> Generator[None]:
    """Within this context something waits for `what`, `timeout_s` at most (None: without end).

    After `NOTICE_AFTER_S` the log "lucky_transport" says so, as a warning: that is shown where no logging is set up. A
    wait that must be over by then is left alone, for its own error comes as soon.
    """
    if timeout_s is not None and timeout_s <= NOTICE_AFTER_S:
        yield
        return
    end = "" if timeout_s is None else f"; gives up after {timeout_s:g} s"
    timer = threading.Timer(NOTICE_AFTER_S, _log.warning, ("still waiting for %s%s", what, end))
    timer.name = "lucky-notice"
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
