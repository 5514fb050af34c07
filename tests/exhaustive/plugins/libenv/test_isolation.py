"""A library in a process of its own: what it does to that process, the client survives."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import lucky_transport as lt
from lucky_transport.api import make_engine
from lucky_transport.engine import RESET
from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, PeerTimeout, SpecError, UnknownName
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport_libenv.isolation import IsolatedEngine
from tests.plugins.libenv.conftest import bound

pytestmark = pytest.mark.usefixtures("forked_engines")


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Generator[None]:
    mine = f"lucky_{os.getpid()}_"

    def left() -> set[str]:
        return {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(mine)}

    before = left()
    yield
    assert left() == before


def step_until_it_ends(env: lt.VectorEnv, steps: int = 10) -> None:
    env.reset()
    for _ in range(steps):
        env.step(env.transport.actions)


@pytest.mark.parametrize(
    ("transport", "option", "how"),
    [
        ("inproc", "exit_at", "exit status 7"),
        ("inproc", "crash_at", "signal SIGABRT"),
        ("shm", "exit_at", "exit status 7"),
    ],
)
def test_a_library_that_ends_its_process_is_an_error_with_its_exit_report(
    sample: str, transport: str, option: str, how: str
) -> None:
    with lt.make(f"libenv:{sample}", 2, options={option: 3}, transport=transport) as env:
        with pytest.raises(PeerDied, match=how) as caught:
            step_until_it_ends(env)
        assert "sample: asked to" in str(caught.value)
        assert "at act 3" in str(caught.value)


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
        make_engine(f"libenv:{sample}", 2, **options)


def test_what_can_be_refused_at_once_starts_no_process(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("lucky_transport_libenv.isolation.EngineProcess", start)
    cases: tuple[tuple[str, dict[str, Any], type[Exception]], ...] = (
        ("/nowhere/libx.so", {}, UnknownName),
        (sample, {"levels": [1, 2]}, SpecError),
        (sample, {"seed": 1}, SpecError),
        (sample, {"libenv": {"handles": 3}}, SpecError),
    )
    for name, options, error in cases:
        with pytest.raises(error):
            make_engine(f"libenv:{name}", 2, **options)


def test_options_of_all_types_reach_the_library_as_what_they_are(sample: str) -> None:
    options = {"episode_steps": 7, "pace": 0.5, "makes_nothing": False, "name": b"maze"}
    with lt.make(f"libenv:{sample}", 2, options=options, transport="inproc") as env:
        env.reset()
        *_, info = env.step(env.transport.actions)
        assert bytes(info["name"][0]).rstrip(b"\0") == b"maze"


@pytest.mark.parametrize("transport", ["inproc", "shm"])
def test_a_talkative_library_does_not_stop(sample: str, transport: str) -> None:
    """More than a pipe holds; nobody reads it."""
    options = {"lines_per_act": 1000, "exit_at": 5}
    with lt.make(f"libenv:{sample}", 1, options=options, transport=transport) as env:
        with pytest.raises(PeerDied) as caught:
            step_until_it_ends(env)
        assert "to whoever listens" in str(caught.value), "what it printed is not among its last words"


def test_a_library_that_hangs_is_ended_after_the_step_timeout(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_STEP_TIMEOUT_S", "0.3")
    with bound(make_engine(f"libenv:{sample}", 2, hang_at=1)) as (engine, _):
        assert isinstance(engine, IsolatedEngine)
        engine.step(np.full(2, RESET, np.uint8))
        with pytest.raises(PeerTimeout, match=r"within 0.3 s.*its process was ended"):
            engine.step(None)


def test_a_killed_process_is_an_error_and_leaves_nothing(sample: str) -> None:
    with bound(make_engine(f"libenv:{sample}", 2)) as (engine, _):
        assert isinstance(engine, IsolatedEngine)
        engine.step(np.full(2, RESET, np.uint8))
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(PeerDied, match="signal SIGKILL"):
            engine.step(None)


def test_the_process_ends_with_the_engine(sample: str) -> None:
    engine = make_engine(f"libenv:{sample}", 2)
    assert isinstance(engine, IsolatedEngine)
    pid = engine.pid
    engine.close()
    engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_command_called_serve_does_not_make_the_process_the_librarys_own(sample: str) -> None:
    with (
        click.Context(click.Command("serve"), info_name="serve"),
        closing(make_engine(f"libenv:{sample}", 2)) as engine,
    ):
        assert isinstance(engine, IsolatedEngine)


def test_an_engine_process_loads_the_library_itself(sample: str) -> None:
    process = EngineProcess(f"libenv:{sample}", [f"shm://{unique_name()}"], num_envs=2)
    try:
        assert sample in Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.stop()


def test_a_process_can_be_done_without(sample: str) -> None:
    with closing(make_engine(f"libenv:{sample}", 2, libenv={"isolated": False})) as engine:
        assert not isinstance(engine, IsolatedEngine)
