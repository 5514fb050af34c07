"""A program that ends without closing its env ends in silence."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

PROGRAM = """
import sys, lucky_transport
from lucky_transport.client import Client
env = lucky_transport.make("mujoco:quadruped", num_envs=2, transport="inproc", options={"renderer": sys.argv[2]})
env.reset(seed=0)
env.step(env.action_space.sample())
if sys.argv[1] == "after an image":
    with Client(env.transport).camera.stream("front", width=16, height=9) as images:
        next(iter(images))
if sys.argv[1] == "within a stream":
    stream = Client(env.transport).telemetry.stream(fps=50)
    next(iter(stream))
"""


@pytest.mark.parametrize("renderer", ["rays", "auto"])
@pytest.mark.parametrize("when", ["after a step", "after an image", "within a stream"])
def test_an_env_in_process_that_is_not_closed_leaves_no_word_at_exit(when: str, renderer: str) -> None:
    command = [sys.executable, "-c", PROGRAM, when, renderer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    words = [line for line in done.stderr.splitlines() if not line.startswith("no OpenGL works here")]
    assert (done.returncode, done.stdout, words) == (0, "", [])
