"""Fault points of a process: the steps of a publish at which it is ended or stopped, and how.

In C the points are macros of a build of the native module for these tests (`fault_native`): the memory is as the
machine code left it, and the module that is installed has nothing of them. In Python a point is a line of one of the
functions in PUBLISHES, found by a tracer: so every step of them is one, without a word in the product.

    watch(see)                  see(point) is called at each point of this process from now on
    watch(armed(fault, tell))   the process meets its fault there; tell(moment in ns, pid of a forked child or 0) before
"""

import ctypes
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

See = Callable[[str], None]

#: Functions that publish in several steps, by module; each of their lines is a point.
PUBLISHES = {
    "lucky_transport.shm.files.lockfile": ("acquire", "Lock.__init__", "Lock.release"),
    "lucky_transport.shm.files.mapping": ("allocate",),
    "lucky_transport.shm.segment.header": ("write",),
    "lucky_transport.shm.segment.segment": ("create", "Segment.publish_ready", "Segment.unlink"),
    "lucky_transport.shm.segment.segment_files": ("remove_dead",),
    "lucky_transport.shm.listener.listener": (
        "Listener.__init__",
        "Listener._accept",
        "Listener._shake_hands",
        "Listener._admit",
        "Listener.close",
    ),
    "lucky_transport.shm.listener.handshake": ("make_pair", "receive_pair"),
    "lucky_transport.shm.listener.connecting": ("_connect",),
    "lucky_transport_shm.attachment": ("attach", "detach"),
    "lucky_transport_shm.attached_client": ("AttachedClient._know",),
    "lucky_transport_shm.server": ("StepLoop._free_place", "StepLoop._exchange"),
    "lucky_transport.shm.slot_files.image_file": ("ImageFile.create", "WriterSlot.take", "WriterSlot.post"),
    "lucky_transport.shm.slot_files.image_store": ("ImageStream._slot_with", "ImageStream.put"),
}

_libc = ctypes.PyDLL(None)  # PyDLL: the GIL stays held, so nothing else of Python runs between the point and the deed
_EXIT_STATUS = 3
_CHILD_S = 120


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(_CHILD_S)  # it is delivered a moment later


def _stop() -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread, so that it stops right here


#: How a process leaves at a point. exit: as a C library does it. exec: the same process goes on as another program.
DEEDS: dict[str, Callable[[], object]] = {
    "kill": _kill,
    "exit": lambda: _libc.exit(_EXIT_STATUS),
    "exec": lambda: os.execv("/bin/sleep", ["sleep", str(_CHILD_S)]),
    "fork": _kill,
    "stop": _stop,
    "pause": _stop,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What a process meets: `deed` when it is at `point` for the `nth` time. pause: a stop that is over soon.

    fork: it forks in C, so that Python's hooks do not run, and is killed; the child keeps all it inherited.
    """

    point: str
    nth: int
    deed: str


def armed(fault: Fault, tell: Callable[[int, int], object]) -> See:
    """Return what is to be called at each point."""
    left = fault.nth

    def see(point: str) -> None:
        nonlocal left
        if point != fault.point or left <= 0:
            return
        left -= 1
        if left:
            return
        child = 0
        if fault.deed == "fork":
            child = _libc.fork()
            if not child:
                time.sleep(_CHILD_S)
                os._exit(0)
        tell(time.monotonic_ns(), child)
        DEEDS[fault.deed]()

    return see


def watch(see: See) -> None:
    """Call `see` at each point of this process from now on, in all threads that are started later and in this one."""
    native = sys.modules.get("lucky_transport._native")
    if native is not None and hasattr(native, "fault_hook"):
        native.fault_hook(see)
    traced = {_code_of(module, name): name for module, names in PUBLISHES.items() for name in names}

    def trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
        return trace_lines if frame.f_code in traced else None

    def trace_lines(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            code = frame.f_code
            see(f"{_short(code)} {traced[code]}+{frame.f_lineno - code.co_firstlineno}")
        return trace_lines

    threading.settrace(trace_calls)
    sys.settrace(trace_calls)


def _short(code: CodeType) -> str:
    return os.path.basename(code.co_filename).removesuffix(".py")


def _code_of(module: str, name: str) -> CodeType:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return getattr(found, "__wrapped__", found).__code__
