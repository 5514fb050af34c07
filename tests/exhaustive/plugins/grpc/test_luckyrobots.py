"""The real luckyrobots client, unmodified, works against our server; ours and theirs live in one process."""

# pyright: basic, reportMissingImports=false
# Reason: luckyrobots ships no types, and is installed only where its compatibility is tested.

from __future__ import annotations

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.engine import RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.messages import SetActionGroupResponse
from lucky_transport.serving import Serving
from lucky_transport.testing.suite import every, open_reference
from lucky_transport_grpc.runtime import grpc

try:
    import luckyrobots
    from luckyrobots import reflection
    from luckyrobots.lucky_env import LuckyEnv
except Exception as error:  # its generated code refuses older protobuf and grpcio with classes of its own
    pytest.skip(f"luckyrobots cannot be imported: {type(error).__name__}: {error}", allow_module_level=True)

Serve = Callable[..., Serving]
Open = Callable[..., Any]


def _port(serving: Serving) -> int:
    return int(serving.endpoints[0].address.rpartition(":")[2])


@pytest.fixture
def client(serve: Serve) -> Generator[Open]:
    """Open luckyrobots' own client for what `serve` returned."""
    opened: list[Any] = []

    def open_client(serving: Serving) -> Any:
        found = luckyrobots.LuckyEngineClient(host="127.0.0.1", port=_port(serving))
        found.connect()
        opened.append(found)
        return found

    yield open_client
    for each in opened:
        each.close()


@pytest.fixture
def lucky_env(serve: Serve) -> Generator[Open]:
    """Open a LuckyEnv for what `serve` returned."""
    opened: list[Any] = []

    def open_env(serving: Serving, **options: Any) -> Any:
        # a timeout of its own: the client's health check never succeeds in 0.5.0 and burns all of it
        env = LuckyEnv(port=_port(serving), timeout=0.6, **options)
        opened.append(env)
        return env

    yield open_env
    for each in opened:
        each.close()


def test_the_schema_tells_names_and_sizes(serve: Serve, client: Open) -> None:
    schema = client(serve(obs_size=5, act_size=3)).get_agent_schema().schema
    assert (schema.agent_name, schema.observation_size, schema.action_size) == ("agent_0", 5, 3)
    assert list(schema.action_names) == ["a_0", "a_1", "a_2"]


def test_resetting_and_stepping_gives_the_references_numbers(serve: Serve, client: Open) -> None:
    theirs = client(serve(num_envs=1, seed=3))
    assert theirs.reset_agent().success
    with open_reference("toy", 1, seed=3) as reference:
        reference.step(np.zeros((1, 2)), every(reference, RESET))
        generator = np.random.default_rng(0)
        for number in range(20):
            action = generator.uniform(-1, 1, 2).astype(np.float32)
            found, expected = theirs.step(action.tolist()), reference.step(action[None])
            assert found.observation == expected.observations[0].tolist()
            assert found.reward_signals == {"alive": 1.0, "centred": float(expected.signals[1, 0])}
            assert found.frame_number == number + 2
            assert (found.terminated, found.truncated) == (bool(expected.terminated[0]), bool(expected.truncated[0]))


def test_a_reset_contract_reaches_the_engine(serve: Serve, client: Open) -> None:
    theirs, plain = client(serve(seed=3)), client(serve(seed=3))
    assert theirs.reset_agent(randomization_cfg=SimpleNamespace(joint_position_noise=0.9)).success
    plain.reset_agent()
    assert theirs.step([0.0, 0.0]).observation != plain.step([0.0, 0.0]).observation


def test_a_refused_step_raises_what_their_client_raises(serve: Serve, client: Open) -> None:
    theirs = client(serve())
    with pytest.raises(RuntimeError, match=r"actions have shape \(1, 1\), expected \(1, 2\)"):
        theirs.step([0.0])


def test_action_groups_make_up_a_step(serve: Serve, client: Open) -> None:
    groups = [{"group_name": "legs", "actions": [0.5], "action_indices": [1]}]
    assert client(serve()).step([0.25, 0.0], action_groups=groups).actions == [0.25, 0.5]


def test_set_action_group_is_refused_by_an_engine_without_it(serve: Serve, client: Open, refused: Any) -> None:
    error = refused(client(serve()).set_action_group, "legs", [0.5], [1])
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_set_action_group_reaches_an_engine_that_has_it(serve: Serve, client: Open) -> None:
    taken: list[Any] = []

    class Grouped(ToyEngine):
        @property
        def services(self) -> Any:
            return {"/hazel.rpc.AgentService/SetActionGroup": self._take}

        def _take(self, request: Any) -> SetActionGroupResponse:
            taken.append((request.group.group_name, request.group.actions, request.group.action_indices))
            return SetActionGroupResponse(True)

    assert client(serve(Grouped())).set_action_group("legs", [0.5], [1])
    assert taken == [("legs", [0.5], [1])]


def test_the_manifest_names_every_term(serve: Serve, client: Open) -> None:
    manifest = client(serve()).get_capability_manifest()
    assert [term["name"] for term in manifest["rewards"]] == ["alive", "centred"]
    assert [term["name"] for term in manifest["terminations"]] == ["out_of_range", "time_out"]


def test_an_unknown_term_is_refused_with_the_nearest_name(serve: Serve, client: Open) -> None:
    theirs = client(serve())
    contract = {"rewards": {"engine_terms": [{"name": "centered"}]}}
    answer = theirs.validate_task_contract(contract)
    assert not answer["is_valid"]
    assert "did you mean 'centred'?" in str(answer["errors"])
    with pytest.raises(RuntimeError, match="did you mean 'centred'"):
        theirs.negotiate_task(contract)


def test_mujoco_info_is_unimplemented_on_an_engine_without_mujoco(serve: Serve, client: Open, refused: Any) -> None:
    error = refused(client(serve()).get_mujoco_info, "agent_0")
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_mujoco_info_and_joint_state_come_from_the_mujoco_engine(serve: Serve, client: Open) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'lucky-transport[mujoco]'")
    from lucky_transport.api import make_engine

    theirs = client(serve(make_engine("mujoco:quadruped", 1)))
    info = theirs.get_mujoco_info("agent_0")
    assert (info.nu, len(info.actuator_names)) == (12, 12)
    assert theirs.health_check()
    state = theirs.get_joint_state("agent_0").state
    assert (len(state.positions), len(state.velocities)) == (state.nq, state.nv)
    assert theirs.reset_agent().success
    assert len(theirs.step([0.0] * 12).observation) == theirs.get_agent_schema().schema.observation_size


def test_their_reflection_helpers_work(serve: Serve, client: Open) -> None:
    channel = client(serve()).channel
    assert reflection.list_services(channel) == [
        "grpc.health.v1.Health",
        "hazel.rpc.AgentService",
        "hazel.rpc.MujocoService",
        "hazel.rpc.SceneService",
        "hazel.rpc.TelemetryService",
        "lucky_transport.v1.BatchService",
    ]
    assert reflection.has_rpc(channel, "hazel.rpc.AgentService/Step")
    described = reflection.describe_all(channel)
    assert described["hazel.rpc.AgentService"].methods_by_name["NegotiateTask"].output_type.name == (
        "NegotiateTaskResponse"
    )


def test_lucky_env_runs_whole_episodes_with_the_negotiated_terms(serve: Serve, lucky_env: Open) -> None:
    env = lucky_env(
        serve(num_envs=1, episode_steps=7, reset_ticks=1),
        reward_terms=["centred"],
        termination_terms=["time_out"],
    )
    for _ in range(3):
        observation, info = env.reset()
        assert observation.shape == env.observation_space.shape
        steps = 0
        truncated = False
        while not truncated:
            observation, reward, terminated, truncated, info = env.step(np.full(2, 0.1, np.float32))
            assert info["reward_signals"].keys() == {"centred"}
            assert reward == info["reward_signals"]["centred"] < 0
            assert info["termination_flags"] == {"time_out": truncated}
            assert not terminated
            steps += 1
        assert steps == 6  # the tick of the reset was the first of the seven


def test_lucky_env_asking_for_an_unknown_term_is_told_the_nearest(serve: Serve, lucky_env: Open) -> None:
    with pytest.raises(RuntimeError, match="did you mean 'time_out'"):
        lucky_env(serve(), termination_terms=["timeout"])


def test_both_clients_work_in_one_process_against_one_engine(
    serve: Serve, client: Open, connect: Any, zeros: Any, refused: Any
) -> None:
    serving = serve(idle_s=0.0)
    theirs, ours = client(serving), connect(serving)
    assert theirs.reset_agent().success
    before = theirs.step([0.5, 0.5]).observation
    frame = ours.step(zeros(ours))
    assert frame.observations[0].tolist() != before
    error = refused(theirs.step, [0.5, 0.5])
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "is driven by grpc client of pid" in error.details()
    assert theirs.get_agent_schema().schema.observation_size == 8


def test_a_lucky_env_can_be_opened_again_as_soon_as_it_was_closed(serve: Serve, lucky_env: Open) -> None:
    serving = serve(idle_s=3600.0)
    for _ in range(3):
        env = lucky_env(serving)
        env.reset()
        env.close()
