"""What happens around fork(): parts that a child must not share, or has to begin anew, register here."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import types
import weakref
from collections.abc import Callable
from functools import partial

_Call = Callable[[], object]
_numbers = itertools.count()
#: After all that a worker of multiprocessing ends itself.
_LAST = -1000
#: Each returns what is to be called, None once its object is gone; in the order in which they were registered.
_before: dict[int, Callable[[], _Call | None]] = {}
_in_parent: dict[int, Callable[[], _Call | None]] = {}
_in_child: dict[int, Callable[[], _Call | None]] = {}


def on_child(call: _Call) -> None:
    """Have `call()` called in each child that this process forks, and in their children.

    A bound method is called as long as its object lives, and does not keep it alive. It has to be idempotent.
    """
    _register(_in_child, call)


def around_fork(before: _Call, in_parent: _Call, in_child: _Call) -> None:
    """Have these called around each fork; bound methods as in `on_child`."""
    _register(_before, before)
    _register(_in_parent, in_parent)
    _register(_in_child, in_child)


def at_exit(call: _Call) -> None:
    """Have `call()` called when this process ends, and when children end that it forks, those of multiprocessing too,
    which end without `atexit`. It has to be idempotent.
    """
    atexit.register(call)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _at_end_of_worker(call)
    on_child(lambda: _in_worker(call))


def _in_worker(call: _Call) -> None:
    """Have it called when this process ends, if it is one that multiprocessing has just forked."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:  # which lets go of what a child has from its parent, and then calls these

        def begun(_: object) -> None:
            _at_end_of_worker(call)

        util.register_after_fork(begun, begun)


def _at_end_of_worker(call: _Call) -> None:
    from multiprocessing.util import Finalize

    Finalize(None, call, exitpriority=_LAST)


def _register(calls: dict[int, Callable[[], _Call | None]], call: _Call) -> None:
    number = next(_numbers)
    if isinstance(call, types.MethodType):
        # no WeakMethod: its callback fails when the interpreter's exit collects it before its object
        function, owner = call.__func__, weakref.ref(call.__self__, partial(calls.pop, number))  # no signal meets it
        calls[number] = lambda: None if (alive := owner()) is None else types.MethodType(function, alive)
    else:
        calls[number] = lambda: call


def _run(calls: dict[int, Callable[[], _Call | None]]) -> None:
    """Make the calls; what one raises is raised once all were made, and is reported by the interpreter."""
    errors: list[Exception] = []
    for reference in list(calls.values()):
        if (call := reference()) is not None:
            try:
                call()
            except Exception as error:
                errors.append(error)
    if errors:
        raise ExceptionGroup("after fork()", errors) if len(errors) > 1 else errors[0]


os.register_at_fork(
    before=lambda: _run(_before),
    after_in_parent=lambda: _run(_in_parent),
    after_in_child=lambda: _run(_in_child),
)
