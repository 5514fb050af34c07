"""A program that ends without closing its env ends in silence."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

PROGRAM = """
import sys, lucky_transport
from lucky_transport.client import Client
env = lucky_transport.make("mujoco:quadruped", num_envs=2, transport="inproc", options={"renderer": "rays"})
env.reset(seed=0)
env.step(env.action_space.sample())
if sys.argv[1] == "after an image":
    with Client(env.transport).camera.stream("front", width=16, height=9) as images:
        next(iter(images))
if sys.argv[1] == "within a stream":
    stream = Client(env.transport).telemetry.stream(fps=50)
    next(iter(stream))
"""


@pytest.mark.parametrize("when", ["after a step", "after an image", "within a stream"])
def test_an_env_in_process_that_is_not_closed_leaves_no_word_at_exit(when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, when], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
