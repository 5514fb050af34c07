"""Programs in which gevent or eventlet has put greenlets in the place of threads.

A thread of ours that waits in shared memory would keep every greenlet from running.
"""

from __future__ import annotations

import sys

_PATCHES = (("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched"))
_MODULES = ("select", "socket", "thread", "threading")


def why_no_threads() -> str:
    """Return why this process cannot use shared memory, "" where it can."""
    for module, ask in _PATCHES:
        is_patched = getattr(sys.modules.get(module), ask, None)
        if is_patched is not None and any(map(is_patched, _MODULES)):
            return f"{module.partition('.')[0]} has patched this process, and shared memory needs its threads"
    return ""
