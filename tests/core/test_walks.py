"""The walks of `lucky_transport/README.md`: a step and a call enter each function that they name, in that order."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lucky_transport
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name

ROOT = Path(__file__).parents[2]
CORE = ROOT / "lucky_transport"
LONGEST = 8
NATIVE = "lucky_transport._native"


@dataclass(frozen=True)
class Hop:
    """A function that a walk names."""

    file: str
    function: str

    def is_entered_by(self, event: Event) -> bool:
        """True for this function, and for one that it has made."""
        made = event.function.startswith(f"{self.function}.<locals>.")
        is_there = event.file == NATIVE if self.file.startswith("_native/") else event.file.endswith(f"/{self.file}")
        return is_there and (made or event.function == self.function)


@dataclass(frozen=True)
class Event:
    """A function was entered, or left."""

    thread: int
    file: str
    function: str
    entered: bool


@dataclass
class Recorder:
    """What the threads of this process enter and leave, while they are watched."""

    events: list[Event] = field(default_factory=list[Event])

    def hook(self, frame: FrameType, event: str, what: Any) -> None:
        """Note one event, as `sys.setprofile` tells it."""
        entered = event in ("call", "c_call")
        if event in ("call", "return"):
            file, function = frame.f_code.co_filename, frame.f_code.co_qualname
        else:
            owner = type(getattr(what, "__self__", None))
            file, function = owner.__module__, f"{owner.__name__}.{what.__name__}"
        self.events.append(Event(threading.get_ident(), file, function, entered))

    def watched(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """Return what calls an object of the native module, which no profiler is told of."""

        def call(*given: Any) -> Any:
            self.events.append(Event(threading.get_ident(), NATIVE, f"{type(made).__name__}.__call__", True))
            return made(*given)

        return call

    def missing(self, walk: Sequence[Hop], do: Callable[[], object]) -> Hop | None:
        """Return the first hop of the walk that `do` does not enter after the one before it, None when there is none.

        A hop in which another thread waits for the one before it has been entered already.
        """
        at, thread = len(self.events), threading.get_ident()
        sys.setprofile(self.hook)
        try:
            do()
        finally:
            sys.setprofile(None)
        events = tuple(self.events)
        for hop in walk:
            if self._waits(hop, events[:at], thread):
                continue
            later = (number for number in range(at, len(events)) if events[number].entered)
            found = next((number for number in later if hop.is_entered_by(events[number])), None)
            if found is None:
                return hop
            at, thread = found + 1, events[found].thread
        return None

    @staticmethod
    def _waits(hop: Hop, events: Sequence[Event], thread: int) -> bool:
        """True when, after these events, another thread than this one is in the function."""
        depth: Counter[int] = Counter()
        for event in events:
            if event.thread != thread and hop.is_entered_by(event):
                depth[event.thread] += 1 if event.entered else -1
        return any(count > 0 for count in depth.values())


def walk_of(heading: str) -> list[Hop]:
    """Return the hops that the map lists under a heading."""
    section = (CORE / "README.md").read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\d+\. (.*)$", section, re.MULTILINE)
    hops = [Hop(*found[0]) for line in lines if (found := re.findall(r"^`([\w./]+)` `([\w.]+)`", line))]
    assert len(hops) == len(lines), "each hop begins with a file and a function"
    return hops


STEP = walk_of("One step over shared memory")
CALL = walk_of("One typed call over shared memory")


@contextmanager
def watched_threads(recorder: Recorder) -> Generator[None]:
    threading.setprofile(recorder.hook)
    try:
        yield
    finally:
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def endpoint(recorder: Recorder) -> Generator[str]:
    with watched_threads(recorder), lucky_transport.serve("toy", f"shm://{unique_name()}", num_envs=2) as serving:
        yield str(serving.endpoints[0])


@pytest.fixture
def env(endpoint: str, recorder: Recorder) -> Generator[VectorEnv]:
    """An env that has stepped and called once: what is made at the first use is there."""
    with lucky_transport.make(endpoint=endpoint) as made:
        vars(made)["_plain_result"] = recorder.watched(vars(made)["_plain_result"])
        made.reset(seed=0)
        made.step(made.action_space.sample())
        made.client.scene.get_info()
        yield made


@pytest.mark.parametrize("walk", [STEP, CALL], ids=["step", "call"])
def test_a_walk_is_short_and_its_files_have_what_it_names(walk: list[Hop]) -> None:
    assert 4 <= len(walk) <= LONGEST
    for hop in walk:
        path = next(path for path in (CORE / hop.file, ROOT / hop.file) if path.is_file())
        names = [name for name in hop.function.split(".") if name != "__call__"]
        assert all(name in path.read_text(encoding="utf-8") for name in names), hop


def test_a_step_goes_the_way_that_the_map_shows(env: VectorEnv, recorder: Recorder) -> None:
    actions = env.action_space.sample()
    assert recorder.missing(STEP, lambda: env.step(actions)) is None


def test_a_call_of_the_client_that_steps_goes_the_way_that_the_map_shows(env: VectorEnv, recorder: Recorder) -> None:
    assert recorder.missing(CALL, lambda: env.client.scene.get_info()) is None


@pytest.mark.usefixtures("env")
def test_a_call_of_another_client_goes_the_same_way(endpoint: str, recorder: Recorder) -> None:
    with lucky_transport.connect(endpoint) as client:
        assert recorder.missing(CALL, lambda: client.scene.get_info()) is None


@pytest.mark.parametrize("hop", [Hop("rpc/client.py", "ClientCalls.open"), Hop("rpc/server.py", "ServerCalls.call")])
def test_a_walk_with_a_function_that_is_not_entered_is_found_wrong(
    env: VectorEnv, recorder: Recorder, hop: Hop
) -> None:
    assert recorder.missing([*CALL[:4], hop, *CALL[4:]], lambda: env.client.scene.get_info()) == hop


def test_a_walk_in_another_order_is_found_wrong(env: VectorEnv, recorder: Recorder) -> None:
    engine, handler = CALL[5], CALL[6]
    walk = [*CALL[:5], handler, engine, CALL[7]]
    assert recorder.missing(walk, lambda: env.client.scene.get_info()) == engine
