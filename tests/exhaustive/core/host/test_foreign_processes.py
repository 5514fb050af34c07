"""An env in a process of its own that raises, or ends its process: an error or a death, over every transport."""

from pathlib import Path

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import EngineFailed, PeerDied

pytestmark = pytest.mark.usefixtures("forked_engines", "envs")
each_transport = pytest.mark.parametrize("transport", ["inproc", "shm", "grpc"])

ENVS = """
import os, sys
import gymnasium, numpy as np

class Stopped(BaseException): pass

def fail(how):
    match how:
        case "exit": sys.exit(4)
        case "interrupt": raise KeyboardInterrupt
        case "generator": raise GeneratorExit
        case "stopped": raise Stopped("enough")
        case "leave": os._exit(7)

class Failing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(9)
    def __init__(self, init=""):
        fail(init)
    def reset(self, *, seed=None, options=None):
        fail((options or {}).get("how"))
        return np.zeros(1, np.float32), {}
    def step(self, action):
        fail(["", "exit", "interrupt", "generator", "stopped", "leave"][action])
        return np.ones(1, np.float32), 1.0, False, False, {}

gymnasium.register("Failing-v0", Failing, disable_env_checker=True)
"""


ENGINE = "gymnasium:failing_envs:Failing-v0"


HOW = {"exit": "SystemExit: 4", "interrupt": "KeyboardInterrupt", "generator": "GeneratorExit", "stopped": "enough"}


@pytest.fixture
def envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_envs.py").write_text(ENVS)
    (tmp_path / "without_guard.py").write_text("import sys; sys.exit('no guard')")
    monkeypatch.syspath_prepend(tmp_path)


@each_transport
def test_an_env_that_wants_to_end_its_process_fails_and_can_be_reset(transport: str) -> None:
    with api.make(ENGINE, transport=transport) as env:
        for action, (how, text) in enumerate(HOW.items(), 1):
            with pytest.raises(EngineFailed, match=text):
                env.reset(options={"how": how})
            env.reset()
            with pytest.raises(EngineFailed, match=text):
                env.step(np.array([action]))
            env.reset()
        assert env.step(np.array([0]))[1] == 1


@each_transport
@pytest.mark.parametrize("how", HOW)
def test_an_env_that_wants_to_end_its_process_when_it_is_made_cannot_be_made(transport: str, how: str) -> None:
    with pytest.raises(EngineFailed, match=HOW[how]):
        api.make(ENGINE, transport=transport, options={"init": how})


@each_transport
def test_a_module_that_wants_to_end_the_process_cannot_be_imported(transport: str) -> None:
    with pytest.raises(EngineFailed, match="SystemExit: no guard"):
        api.make("gymnasium:without_guard:Any-v0", transport=transport)


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_an_env_that_ends_its_process_is_a_death(transport: str) -> None:
    with api.make(ENGINE, transport=transport) as env:
        env.reset()
        with pytest.raises(PeerDied, match="exit status 7"):
            env.step(np.array([5]))
