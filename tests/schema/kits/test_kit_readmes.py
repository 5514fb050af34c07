"""What the READMEs of the native kits show compiles and does what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import SpecError
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.kit_engine import KITS, KitEngine, compile_c, compile_cpp
from tests.support.waiting import until_none_left

SHM = Path("/dev/shm")


def blocks(language: str) -> Iterator[str]:
    text = (KITS / language / "README.md").read_text()
    for indent, block in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.M | re.S):
        yield re.sub(rf"^{indent}", "", block, flags=re.M)


def first_engine_in_c(name: str, folder: Path) -> list[str]:
    """Compile the README's engine with its handlers."""
    lift, handlers = blocks("c")
    whole = lift.replace("int main", f"{handlers}\nint main", 1).replace('"lift", &engine', f'"{name}", &engine')
    whole = whole.replace(".user = &all}", ".user = &all, .handlers = HANDLERS, .num_handlers = 2}")
    source = folder / "lift.c"
    source.write_text(whole.replace("lucky_handle_signals", 'puts("here"), fflush(stdout), lucky_handle_signals'))
    return compile_c(folder / "lift", str(source))


def first_engine_in_cpp(name: str, folder: Path) -> list[str]:
    """Compile the README's engine, with its handler in the constructor."""
    lift, handler = blocks("cpp")
    whole = lift.replace("ticks_(num_envs) {}", f"ticks_(num_envs) {{\n{handler}}}").replace(
        'server("lift"', f'server("{name}"'
    )
    source = folder / "lift.cpp"
    source.write_text(whole.replace("server.run()", 'std::cout << "here" << std::endl, server.run()'))
    return compile_cpp(folder / "lift", str(source))


def test_the_first_engine_in_c_steps_and_answers(tmp_path: Path) -> None:
    name = unique_name()
    lift = KitEngine(first_engine_in_c(name, tmp_path), name)
    with lift as engine, engine.connect() as client, VectorEnv(client) as env:
        with pytest.warns(UserWarning, match="seed"):
            env.reset(seed=0)
        assert_it_lifts(env)
        state = env.client.mujoco.get_joint_state("any")
        assert state.state is not None
        np.testing.assert_allclose(state.state.positions, [0.3], rtol=1e-6)
    until_none_left(lambda: list(SHM.glob(f"{name}*")))


def test_the_first_engine_in_cpp_steps_and_answers(tmp_path: Path) -> None:
    name = unique_name()
    lift = KitEngine(first_engine_in_cpp(name, tmp_path), name)
    with lift as engine, engine.connect() as client, VectorEnv(client) as env:
        env.reset(seed=0)
        assert_it_lifts(env)
        with pytest.raises(SpecError, match="too many seeds"):
            client.call(method("BatchService/SetSeeds"), SetSeedsRequest([0] * 1001))
    until_none_left(lambda: list(SHM.glob(f"{name}*")))


def assert_it_lifts(env: VectorEnv) -> None:
    for _ in range(2):
        env.step(np.ones((4, 1), np.float32))
    observations, rewards, _, _, info = env.step(np.ones((4, 1), np.float32))
    np.testing.assert_allclose(observations.ravel(), [0.3] * 4, rtol=1e-6)
    np.testing.assert_allclose(rewards, [-0.71] * 4, rtol=1e-6)
    assert set(info["reward_terms"]) >= {"distance", "effort"}
