"""How long threads that wait for a peer sleep at a time, how often they look whether it lives, and what wakes them."""

import contextlib
import ctypes
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import native
from lucky_transport.shm.files.liveness import Peer
from lucky_transport.shm.files.lockfile import Watch
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe

_FUTEX, *_EPOLLS = (98, 22) if platform.machine() == "aarch64" else (202, 232, 281)


def slept_ns(thread: threading.Thread) -> int:
    """Return for how many nanoseconds this thread sleeps at a word of shared memory; 0 while it does anything else."""
    call, word, operation, _, time = _system_call(thread)
    if call != _FUTEX or not word or operation:  # those of Python's own locks are private
        return 0
    seconds, rest = (ctypes.c_int64 * 2).from_address(time)
    return seconds * 10**9 + rest


def wakers(thread: threading.Thread) -> set[str]:
    """Return what wakes this thread from an epoll, and the epolls that it watches: "pidfd", "socket", ..."""
    call, epoll, *_ = _system_call(thread)
    return set(_watched(epoll)) if call in _EPOLLS else set()


def _system_call(thread: threading.Thread) -> list[int]:
    """Return the number and the first arguments of the call that it sleeps in; zeros while it runs."""
    found = Path(f"/proc/self/task/{thread.native_id}/syscall").read_text().split()
    return [int(part, 0) for part in found[:5]] if len(found) > 5 else [0] * 5


def _watched(epoll: int) -> Iterator[str]:
    for fd in re.findall(r"^tfd:\s+(\d+)", Path(f"/proc/self/fdinfo/{epoll}").read_text(), re.MULTILINE):
        kind = os.readlink(f"/proc/self/fd/{fd}").removeprefix("anon_inode:").split(":")[0].strip("[]")
        yield from _watched(int(fd)) if kind == "eventpoll" else [kind]


class Slices:
    """The waits of the thread that is inside `dies`, and its looks at its peer, which is dead at the last of `LOOKS`.

    between: nanoseconds that it asked to sleep before each look, and after the last one.
    """

    LOOKS = 3

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.between = [0]
        self._thread = 0
        self._fused_ns = 0
        for owner, name, timeout_ns in (
            (native.RingReader, "wait", lambda given, _: given[1]),
            (native.RingWriter, "wait_writable", lambda given, _: given[2]),
            (native.ClientChannel, "recv", lambda given, _: given[1]),
            (native.ClientChannel, "exchange", lambda *_: self._fused_ns),
            (native, "wait32", lambda _, named: named["timeout_ns"]),
        ):
            patch.setattr(owner, name, self._counted(getattr(owner, name), timeout_ns))
        patch.setattr(native.ClientChannel, "fuse", self._fuse(native.ClientChannel.fuse))
        for peer, name, when_dead in ((Watch, "held", False), (Peer, "alive", False), (MemfdPipe, "peer_left", True)):
            patch.setattr(peer, name, property(self._look(vars(peer)[name].fget, when_dead)))

    @contextlib.contextmanager
    def dies(self) -> Iterator[None]:
        """Have the peer of this thread die at the last look."""
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = 0

    def _counted(self, wait: Callable[..., Any], timeout_ns: Callable[[Any, Any], int]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if threading.get_ident() == self._thread:
                self.between[-1] += timeout_ns(given, named)
            return wait(*given, **named)

        return counted

    def _fuse(self, fuse: Callable[..., None]) -> Callable[..., None]:
        def fused(channel: Any, frames: Any, slow: Any, slice_ns: int) -> None:
            self._fused_ns = slice_ns
            fuse(channel, frames, slow, slice_ns)

        return fused

    def _look(self, look: Callable[[Any], bool], when_dead: bool) -> Callable[[Any], bool]:
        def counted(peer: Any) -> bool:
            if threading.get_ident() != self._thread:
                return look(peer)
            self.between.append(0)
            return when_dead if len(self.between) > self.LOOKS else look(peer)

        return counted
