"""What the READMEs of the native kits show compiles and does what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name
from tests.support.kit_engine import KITS, KitEngine, compile_c
from tests.support.waiting import until_none_left

SHM = Path("/dev/shm")


def blocks(language: str) -> Iterator[str]:
    text = (KITS / language / "README.md").read_text()
    for indent, block in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.M | re.S):
        yield re.sub(rf"^{indent}", "", block, flags=re.M)


@pytest.mark.parametrize("language", ["c"])
def test_the_first_engine_steps_and_answers(language: str, tmp_path: Path) -> None:
    name = unique_name()
    lift, handlers = blocks(language)
    whole = lift.replace("int main", f"{handlers}\nint main", 1).replace('"lift", &engine', f'"{name}", &engine')
    whole = whole.replace(".user = &all}", ".user = &all, .handlers = HANDLERS, .num_handlers = 2}")
    source = tmp_path / f"lift.{language}"
    source.write_text(whole.replace("lucky_handle_signals", 'puts("here"), fflush(stdout), lucky_handle_signals'))
    engine = KitEngine([*compile_c(tmp_path / "lift", str(source))], name)
    with engine.connect() as client, VectorEnv(client) as env:
        with pytest.warns(UserWarning, match="seed"):
            env.reset(seed=0)
        for _ in range(2):
            env.step(np.ones((4, 1), np.float32))
        observations, rewards, _, _, info = env.step(np.ones((4, 1), np.float32))
        np.testing.assert_allclose(observations.ravel(), [0.3] * 4, rtol=1e-6)
        np.testing.assert_allclose(rewards, [-0.71] * 4, rtol=1e-6)
        assert set(info["reward_terms"]) >= {"distance", "effort"}
        state = env.client.mujoco.get_joint_state("any")
        assert state.state is not None
        np.testing.assert_allclose(state.state.positions, [0.3], rtol=1e-6)
    engine.close()
    until_none_left(lambda: list(SHM.glob(f"{name}*")))
