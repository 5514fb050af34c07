"""Sessions, and programs beside them, of one engine; and the defects in luckyrobots that our code works around."""

# pyright: basic
# Reason: luckyrobots ships no types.

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

#: A second program, a notebook for instance: it steps once for each line that it reads.
_NOTEBOOK = """
import sys
import luckyrobots
client = luckyrobots.LuckyEngineClient(host="127.0.0.1", port=int(sys.argv[1]), robot_name="quadruped")
client.connect()
for _ in sys.stdin:
    print(client.step([0.1] * 12).frame_number, flush=True)
"""
_ACTIONS = [0.1] * 12
_CURED = pytest.mark.only_over_grpc("the launcher cures the health check")


def test_start_waits_for_the_agents_and_negotiates(
    lucky: Any, port: int, repaired: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[dict[str, Any]] = []
    monkeypatch.setattr(lucky.session, "launch_luckyengine", lambda **options: launched.append(options) or True)
    session = lucky.Session(port=port)
    contract = {"rewards": {"engine_terms": [{"name": "alive"}]}}
    try:
        session.start(scene="flat", robot="quadruped", task="walk", timeout_s=20.0, task_contract=contract)
        session.reset()
        assert session.step([0.0] * 12).reward_signals.keys() == {"alive"}
    finally:
        session.close(stop_engine=False)
    assert [options["grpc_port"] for options in launched] == [port]


def test_reset_returns_the_first_observation_of_an_episode(session: Any) -> None:
    first = session.reset(randomization_cfg=SimpleNamespace(joint_position_noise=0.02))
    assert first.frame_number == 1
    assert len(first.observation) == 48
    second = session.step([0.1] * 12)
    assert second.frame_number == 2
    assert second.observation != first.observation


# --- one engine, several drivers ---


def test_both_kinds_of_session_step_at_once(lucky: Any, session: Any, port: int) -> None:
    pb = lucky.client.agent_pb2

    async def together() -> list[int]:
        async with lucky.AsyncSession(port=port) as other:
            await other.connect(timeout_s=20.0)
            blocking, steps = await asyncio.gather(
                asyncio.to_thread(lambda: [session.step(_ACTIONS).frame_number for _ in range(20)]),
                asyncio.gather(*(other.agent.Step(pb.StepRequest(actions=_ACTIONS)) for _ in range(20))),
            )
            return [*blocking, *(step.observation.frame_number for step in steps)]

    session.reset()
    assert sorted(asyncio.run(together())) == list(range(2, 42))


def test_a_notebook_beside_a_script_steps_too(session: Any, port: int, environment: dict[str, str]) -> None:
    session.reset()
    command = [sys.executable, "-c", _NOTEBOOK, str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as notebook:
        assert notebook.stdin is not None
        assert notebook.stdout is not None
        numbers: list[int] = []
        for _ in range(3):
            numbers.append(session.step(_ACTIONS).frame_number)
            notebook.stdin.write("\n")
            notebook.stdin.flush()
            numbers.append(int(notebook.stdout.readline()))
        notebook.stdin.close()
    assert numbers == [2, 3, 4, 5, 6, 7]


# --- the health check, which README cures, and what envs of one process share ---


@_CURED
def test_it_never_succeeds_although_the_server_answers(client: Any) -> None:
    assert not client.health_check()
    assert not client.wait_for_server(timeout=0.2, poll_interval=0.05)
    assert client.get_mujoco_info().success


def test_it_succeeds_once_the_stub_was_touched(client: Any) -> None:
    assert client.mujoco is not None
    assert client.health_check()


@_CURED
def test_so_a_session_never_connects(lucky: Any, port: int) -> None:
    session = lucky.Session(port=port)
    with pytest.raises(lucky.GrpcConnectionError, match=r"timeout after 0\.3 seconds"):
        session.connect(timeout_s=0.3, robot="quadruped")
    session.close(stop_engine=False)


@_CURED
def test_a_lucky_env_works_after_it_has_wasted_its_timeout(
    lucky: Any, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[bool] = []
    wait = lucky.LuckyEngineClient.wait_for_server
    monkeypatch.setattr(
        lucky.LuckyEngineClient, "wait_for_server", lambda *args, **named: waited.append(wait(*args, **named))
    )
    with lucky.LuckyEnv(port=port, timeout=2.0) as env:  # wasted, and then the deadline of each call
        assert env.reset()[0].shape == (48,)
    assert waited == [False]


def test_a_sysid_collector_collects_once_it_is_repaired(lucky: Any, port: int, repaired: None) -> None:
    with lucky.sysid.collector.EngineCollector(port=port, robot_name="quadruped") as collector:
        found = collector.collect(np.zeros((4, 12)), dt=0.02)
    assert (found.qpos.shape, found.qvel.shape, found.ctrl.shape) == ((4, 19), (4, 18), (4, 12))


def test_envs_of_one_process_share_a_connection_and_so_the_terms_of_the_last(
    lucky: Any, port: int, repaired: None
) -> None:
    with lucky.LuckyEnv(port=port, timeout=20.0, reward_terms=["alive"]) as first:
        first.reset()
        assert first.step(np.zeros(12))[4]["reward_signals"].keys() == {"alive"}
        with lucky.LuckyEnv(port=port, timeout=20.0, reward_terms=["torques"]):
            assert first.step(np.zeros(12))[4]["reward_signals"].keys() == {"torques"}


def test_calls_without_a_deadline_end_with_the_engine(lucky: Any, serve: Any, port_of: Any, connect: Any) -> None:
    engine = serve()
    client = connect(port_of(engine))
    stream = client.stream_full_state(target_fps=100)
    next(stream)
    engine.kill()
    pb = client.pb.agent
    for wait in (lambda: list(stream), lambda: client.agent.ListRobotControllers(pb.ListRobotControllersRequest())):
        with pytest.raises(lucky.client.grpc.RpcError) as caught:
            wait()
        assert caught.value.code() is lucky.client.grpc.StatusCode.UNAVAILABLE
