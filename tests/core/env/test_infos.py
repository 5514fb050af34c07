"""The info of a step: flat columns, which also show as groups."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.env.infos import Info
from lucky_transport.testing.trajectories import random_actions


def _info() -> Info:
    return Info({"a/x": 1, "_a/x": 2, "_a": 3, "a/b/y": 4, "_a/b": 5, "_a/b/y": 6, "ab": 7, "_ab": 8})


def test_a_group_is_a_dict_of_its_columns_and_their_masks() -> None:
    info = _info()
    assert info["a"] == {"x": 1, "_x": 2, "b/y": 4, "_b": 5, "_b/y": 6}
    assert info["a"]["b"] == {"y": 4, "_y": 6}
    assert (info["ab"], info["_a"], info["a"]["_b"]) == (7, 3, 5)


def test_a_group_is_found_in_every_way_that_reads_a_dict_by_name() -> None:
    info = _info()
    assert "a" in info
    assert "b" in info["a"]
    assert info.get("a") == info["a"]
    assert info.get("ab", 0) == 7


def test_what_is_not_there_is_missed_as_in_a_dict() -> None:
    info = _info()
    assert "x" not in info
    assert 3 not in info
    assert info.get("x") is None
    assert info.get("x", 5) == 5
    with pytest.raises(KeyError, match="'x'"):
        info["x"]


@pytest.mark.parametrize("copied", [Info.copy, copy.copy, copy.deepcopy, lambda info: pickle.loads(pickle.dumps(info))])
def test_a_copy_has_its_groups(copied: object) -> None:
    assert callable(copied)
    again = copied(_info())
    assert type(again) is Info
    assert again == _info()
    assert again["a"]["b"]["y"] == 4


@pytest.mark.parametrize("engine", ["toy", "toy:composite"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_every_info_of_an_env_is_flat(engine: str, mode: str) -> None:
    """TorchRL takes an array for every name of an info; only of `final_info` it takes a dict of arrays."""
    generator = np.random.default_rng(0)
    finals = 0
    with api.make(engine, 3, transport="inproc", autoreset_mode=mode, options={"episode_steps": 2}) as env:
        infos = [env.reset(seed=0)[1]]
        for _ in range(4):
            actions = random_actions(env.batch_spec, generator)
            given = env.action_space.sample() if env.batch_spec.action_parts else actions
            _, _, terminated, truncated, info = env.step(given)
            infos.append(info)
            if "final_info" in info:
                infos.append(info.pop("final_info"))
                info.pop("final_obs")
                finals += 1
            if mode == "Disabled" and (ended := terminated | truncated).any():
                infos.append(env.reset(options={"reset_mask": ended})[1])
    assert finals == (2 if mode == "SameStep" else 0)
    for info in infos:
        assert all(isinstance(column, np.ndarray) and len(column) == 3 for column in info.values()), info
