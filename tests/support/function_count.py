"""How many Python functions of this repository's packages a call enters, thread by thread."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import lucky_transport

REPOSITORY = Path(lucky_transport.__file__).parents[1]
#: Files whose functions are counted; codecs and messages are compiled from strings.
OURS = (str(REPOSITORY / "lucky_transport"), str(REPOSITORY / "plugins"), "<template", "<string")
#: So many calls are looked at.
CALLS = 300


class Profile:
    """The functions of ours that threads enter while `on`, with their depth where it is one thread."""

    def __init__(self) -> None:
        self.on = False
        self.entered: list[str] = []
        self.deepest = 0
        self._depth = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if not self.on or not name.startswith(OURS):
            return
        if event == "call":
            self.entered.append(f"{Path(name).name}:{frame.f_code.co_qualname}")
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
        elif event == "return" and self._depth:  # not of a function that was entered before
            self._depth -= 1

    def profiled(self, call: Callable[[], object]) -> None:
        """Note what `call` enters."""
        self.on = True
        try:
            call()
        finally:
            self.on = False


@contextmanager
def counted_here() -> Iterator[Profile]:
    """Profile this thread."""
    profile = Profile()
    sys.setprofile(profile)
    try:
        yield profile
    finally:
        sys.setprofile(None)


@contextmanager
def counted_on_new_threads() -> Iterator[Profile]:
    """Profile every thread that is started meanwhile."""
    profile = Profile()
    threading.setprofile(profile)
    try:
        yield profile
    finally:
        threading.setprofile(None)


def fewest(profile: Profile, call: Callable[[], object]) -> list[str]:
    """Return what a call enters of which a tenth enter fewer functions, see `few`."""
    found: list[list[str]] = []
    for _ in range(CALLS):
        profile.entered = []
        profile.profiled(call)
        found.append(profile.entered)
    return few(found)


def few(found: list[list[str]]) -> list[str]:
    """Return the one that a tenth are shorter than.

    A thread that waited for the CPU looks more often, and what another thread does for a call may be noted of the next.
    """
    return sorted(found, key=len)[len(found) // 10]
