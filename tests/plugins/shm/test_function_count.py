"""How many Python functions of ours a warm typed call enters, on the client and in the engine, and a plain step."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from lucky_transport import api
from lucky_transport.process import unique_name
from tests.support.function_count import counted_here, counted_on_new_threads

#: Functions entered in sequence, and the deepest nesting, that one call may take at each end.
CLIENT_CALLS, CLIENT_DEPTH = 17, 8
ENGINE_CALLS, ENGINE_DEPTH = 9, 7

WARM = 300


def test_a_warm_typed_call_enters_few_functions() -> None:
    endpoint = f"shm://{unique_name()}"
    with (
        counted_on_new_threads() as engine,
        api.serve("echo", endpoint),
        api.connect(endpoint) as client,
    ):
        ask = client.lidar.get_beam_count
        for _ in range(WARM):
            ask(5)
        with counted_here() as mine:
            engine.profiled(lambda: mine.profiled(lambda: ask(5)))
    assert len(mine.entered) <= CLIENT_CALLS, mine.entered
    assert mine.deepest <= CLIENT_DEPTH, mine.entered
    assert len(engine.entered) <= ENGINE_CALLS, engine.entered
    assert 1 < engine.deepest <= ENGINE_DEPTH, engine.entered


def test_a_plain_step_enters_one_function_of_the_client() -> None:
    endpoint = f"shm://{unique_name()}"
    with api.serve("toy", endpoint, num_envs=2), closing(api.make(endpoint=endpoint)) as env:
        env.reset(seed=0)
        actions = np.zeros(env.action_space.shape or (), np.float32)
        env.step(actions)
        with counted_here() as mine:
            mine.profiled(lambda: env.step(actions))
    assert mine.entered == ["vector_env.py:VectorEnv.step"]
