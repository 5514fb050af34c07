"""How many Python functions of ours a warm typed call enters, on the client and in the engine, and a plain step."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.process import unique_name

#: Functions entered in sequence, and the deepest nesting, that one call may take at each end.
CLIENT_CALLS, CLIENT_DEPTH = 17, 8
ENGINE_CALLS, ENGINE_DEPTH = 9, 7

REPOSITORY = Path(lucky_transport.__file__).parents[1]
#: Files whose functions are counted; codecs and messages are compiled from strings.
OURS = (str(REPOSITORY / "lucky_transport"), str(REPOSITORY / "plugins"), "<template", "<string")
WARM = 300


class Profile:
    """The functions of ours that one thread enters while `on`, with their depth."""

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


@pytest.fixture
def engine_profile() -> Any:
    """Profile every thread that is started during the test."""
    profile = Profile()
    threading.setprofile(profile)
    yield profile
    threading.setprofile(None)


def profiled(profile: Profile, call: Callable[[], object]) -> None:
    profile.on = True
    try:
        call()
    finally:
        profile.on = False


def test_a_warm_typed_call_enters_few_functions(engine_profile: Profile) -> None:
    endpoint = f"shm://{unique_name()}"
    with api.serve("echo", endpoint), api.connect(endpoint) as client:
        ask = client.lidar.get_beam_count
        for _ in range(WARM):
            ask(5)
        mine = Profile()
        sys.setprofile(mine)
        try:
            profiled(engine_profile, lambda: profiled(mine, lambda: ask(5)))
        finally:
            sys.setprofile(None)
    assert len(mine.entered) <= CLIENT_CALLS, mine.entered
    assert mine.deepest <= CLIENT_DEPTH, mine.entered
    assert len(engine_profile.entered) <= ENGINE_CALLS, engine_profile.entered
    assert 1 < engine_profile.deepest <= ENGINE_DEPTH, engine_profile.entered


def test_a_plain_step_enters_one_function_of_the_client() -> None:
    endpoint = f"shm://{unique_name()}"
    with api.serve("toy", endpoint, num_envs=2), closing(api.make(endpoint=endpoint)) as env:
        env.reset(seed=0)
        actions = np.zeros(env.action_space.shape or (), np.float32)
        env.step(actions)
        mine = Profile()
        sys.setprofile(mine)
        try:
            profiled(mine, lambda: env.step(actions))
        finally:
            sys.setprofile(None)
    assert mine.entered == ["vector_env.py:VectorEnv.step"]
