"""What a library does to the engine's process, the client survives."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import lucky_transport as lt
from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, PeerTimeout

pytestmark = pytest.mark.usefixtures("forked_engines")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Generator[None]:
    mine = f"lucky_{os.getpid()}_"

    def left() -> set[str]:
        return {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(mine)}

    before = left()
    yield
    assert left() == before


def step_until_it_ends(env: lt.VectorEnv) -> None:
    for _ in range(10):
        env.step(env.transport.actions)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"exit_at": 3}, PeerDied, "exit status 7.*sample: asked to.*at act 3"),
        ({"crash_at": 3}, PeerDied, "signal SIGABRT.*sample: asked to.*at act 3"),
        ({"lines_per_act": 1000, "exit_at": 5}, PeerDied, "to whoever listens"),  # more than a pipe holds
        ({"hang_at": 3}, PeerTimeout, "within 0.5 s"),
    ],
    ids=["exit", "crash", "talkative", "hang"],
)
def test_a_library_that_ends_its_process_or_hangs_is_an_error(
    sample: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with lt.make(f"libenv:{sample}", 2, options=options, transport="shm", step_timeout_s=0.5) as env:
        env.reset()
        with pytest.raises(kind, match=f"(?s){words}"):
            step_until_it_ends(env)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"pace": 1}, NotReachable, "exit status 1\n  sample: wrong type of option 'pace'"),
        ({"exit_at": True}, NotReachable, "wrong type of option 'exit_at'"),
        ({"makes_nothing": True}, EngineFailed, "libenv_make gave no env"),
    ],
)
def test_an_option_that_the_library_does_not_take_is_an_error_with_its_words(
    sample: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        lt.make(f"libenv:{sample}", 2, options=options, transport="shm")


def test_options_of_all_types_reach_the_library_as_what_they_are(sample: str) -> None:
    options = {"episode_steps": 7, "pace": 0.5, "makes_nothing": False, "name": b"maze"}
    with lt.make(f"libenv:{sample}", 2, options=options, transport="inproc") as env:
        env.reset()
        *_, info = env.step(env.transport.actions)
        assert bytes(info["name"][0]).rstrip(b"\0") == b"maze"
