"""A signal handler, most often one that raises, at each moment in turn at which Python may run one.

    for moment in itertools.count():
        call = begin()
        if not interrupted_at(moment, call.cancel):
            break                                   # it has fewer moments
        ...                                         # what holds after an interrupt

CPython runs handlers at the entry of a Python function, after the call of a C function, and where a loop goes back.
Here tests are not interrupted themselves, nor is anything below `tests.support`, which stands for what is written in C.
Finalizers, where Python loses what a handler raises, Python's own library and those of others are left out too.
"""

import contextlib
import dis
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

_LEFT_OUT = ("/tests/", "/site-packages/", os.path.dirname(os.__file__))
_CALLS = frozenset(number for name, number in dis.opmap.items() if name.startswith("CALL") and "INTRINSIC" not in name)
_BACK = frozenset(number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name)
#: No handler runs between a call that raises and this, where CPython loses the error of a tracer that raises.
_RAISED = dis.opmap["PUSH_EXC_INFO"]


class Interrupted(Exception):
    """What a handler raises, unless it is given."""


def _raise(*_: Any) -> None:
    raise Interrupted


def interrupted_at(moment: int, work: Callable[[], object], handler: Callable[..., object] = _raise) -> bool:
    """Do the work, and run the handler in it at its n-th moment; False when it has fewer, and was done.

    At moment 0 nothing is run: what is made once for all work, as a codec, is made then.
    """
    tracer = _Tracer(moment)
    before, handled = sys.gettrace(), signal.signal(signal.SIGALRM, handler)
    sys.settrace(tracer.enter)
    try:
        work()
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
        signal.signal(signal.SIGALRM, handled)
    return tracer.left <= 0


@cache
def _instructions(code: CodeType) -> bytes:
    return code.co_code


class _Tracer:
    """Sends a signal at the last of `left` moments."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._last: dict[FrameType, int] = {}  # the instruction before, of each frame
        self._called: set[FrameType] = set()  # those that have called a Python function since then

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        caller, code = frame.f_back, frame.f_code
        if code.co_name == "__del__" or any(part in code.co_filename for part in _LEFT_OUT):
            return None
        if caller is not None and self._is_left_out(caller):
            return None
        if caller is not None and code.co_name != "__init__":  # the call of a class is one of C
            self._called.add(caller)
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._last.pop(frame, None)
        self._meet()
        return self._go_on

    def _is_left_out(self, frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return frame.f_trace is None and name != __file__ and ("/tests/support/" in name or "/tests/" not in name)

    def _go_on(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        if event == "opcode":
            last, self._last[frame] = self._last.get(frame), frame.f_lasti
            code = _instructions(frame.f_code)
            if last is not None and code[frame.f_lasti] != _RAISED:
                done = code[last]
                if (done in _CALLS and frame not in self._called) or (done in _BACK and frame.f_lasti <= last):
                    self._meet()
            self._called.discard(frame)
        return self._go_on

    def _meet(self) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGALRM)


@contextlib.contextmanager
def interrupted_start(error: type[BaseException], after: int = 0) -> Iterator[None]:
    """Raise where this thread starts a thread, after `after` others. All of them run by then."""
    starting: Any = threading.Thread.start.__globals__
    name = next(one for one in ("_start_joinable_thread", "_start_new_thread") if one in starting)
    start, left, caller = starting[name], itertools.count(after, -1), threading.get_ident()

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        made = start(*arguments, **settings)
        if threading.get_ident() == caller and next(left) == 0:
            for thread in threading.enumerate():
                thread._started.wait()  # type: ignore[attr-defined]
            raise error
        return made

    starting[name] = interrupted
    try:
        yield
    finally:
        starting[name] = start
