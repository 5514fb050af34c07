"""What threads of a pool do on the loop's thread: coroutines, awaited from outside.

A wait ends when the loop no longer runs; a thread of the pool never waits for a loop that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["await_on"]

_Result = TypeVar("_Result")
_SLICE_S = 1.0


def await_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what the coroutine returns, run on `loop`; for other threads than the loop's.

    Raises what it raises, RuntimeError when the loop has ended.
    """
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # the loop is closed
        coroutine.close()
        raise
    while True:
        try:
            return future.result(_SLICE_S)
        except TimeoutError:
            if future.done():  # it is what the coroutine raised, or came just now
                return future.result()
            if not loop.is_running():
                future.cancel()
                raise RuntimeError("the event loop of the server has ended") from None
