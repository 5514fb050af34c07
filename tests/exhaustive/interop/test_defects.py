"""What is wrong with luckyrobots 0.5.0 itself, whatever the server does: README's list, shown by running it.

Connecting and launching: see test_session_defects.py.

A test here fails when a later luckyrobots behaves better; then the line in README goes, and the test with it.
"""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import inspect
import itertools
from importlib.metadata import requires
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from lucky_transport.process import EngineProcess


def _env(lucky: Any, port: int, timeout: float = 20.0, **options: Any) -> Any:
    """Open a LuckyEnv."""
    return lucky.LuckyEnv(port=port, timeout=timeout, **options)


@pytest.mark.usefixtures("repaired")
class TestLuckyEnv:
    def test_it_is_no_gymnasium_env(self, lucky: Any) -> None:
        assert not issubclass(lucky.LuckyEnv, gymnasium.Env)

    def test_seeds_are_ignored(self, lucky: Any, port: int) -> None:
        with _env(lucky, port) as env:
            assert not np.array_equal(env.reset(seed=7)[0], env.reset(seed=7)[0])

    def test_randomization_given_as_a_dict_is_ignored(self, lucky: Any, client: Any) -> None:
        impossible = {"mass_scale_range": [9.0, 10.0]}
        assert client.reset_agent(randomization_cfg=impossible).success
        assert not client.reset_agent(randomization_cfg=SimpleNamespace(**impossible)).success
        assert lucky.client.sim_contract.to_proto(client.pb.agent, impossible).ByteSize() == 0

    def test_a_refused_reset_is_overlooked(self, lucky: Any, port: int) -> None:
        with _env(lucky, port, randomization_cfg=SimpleNamespace(mass_scale_range=[9.0, 10.0])) as env:
            before = env.reset()[1]["frame_number"]
            assert env.reset()[1]["frame_number"] == before + 1  # no new episode: one more step of the old one

    def test_observation_terms_alone_are_not_negotiated(self, lucky: Any, port: int) -> None:
        with _env(lucky, port, observation_terms=["no such term"]) as env:
            assert env.observation_space.shape == (48,)
        with pytest.raises(RuntimeError, match="no such term"):
            _env(lucky, port, observation_terms=["no such term"], reward_terms=["alive"])

    def test_envs_of_one_process_share_a_connection_and_so_the_terms_of_the_last(self, lucky: Any, port: int) -> None:
        with _env(lucky, port, reward_terms=["alive"]) as first:
            first.reset()
            assert first.step(np.zeros(12))[4]["reward_signals"].keys() == {"alive"}
            with _env(lucky, port, reward_terms=["torques"]):
                assert first.step(np.zeros(12))[4]["reward_signals"].keys() == {"torques"}

    def test_auto_start_starts_nothing(self, lucky: Any, unused_port: int) -> None:
        with pytest.raises(lucky.client.grpc.RpcError, match="UNAVAILABLE"):
            _env(lucky, unused_port, auto_start=True, timeout=1.0)


class TestClient:
    def test_messages_beyond_4_mib_do_not_arrive(self, lucky: Any, client: Any) -> None:
        client.configure_cameras([{"name": "top", "width": 1280, "height": 1024}])
        client.reset_agent(timeout=30.0)
        with pytest.raises(lucky.client.grpc.RpcError, match=r"larger than max \(\d+ vs. 4194304\)") as caught:
            client.step([0.0] * 12, timeout=30.0)
        assert caught.value.code() is lucky.client.grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_no_call_moves_more_than_one_agent(self, lucky: Any, client: Any) -> None:
        request = client.pb.agent.StepRequest.DESCRIPTOR
        assert not request.fields_by_name["agent_name"].is_repeated
        methods = itertools.chain.from_iterable(
            lucky.supported_methods(client.channel, service)
            for service in client.discover_services()
            if service.startswith("hazel.rpc.")
        )
        assert not [name for name in methods if "batch" in name.lower()]

    def test_observations_are_lists(self, client: Any) -> None:
        client.reset_agent()
        assert type(client.step([0.0] * 12).observation) is list

    def test_an_array_of_actions_is_a_value_error(self, client: Any) -> None:
        with pytest.raises(ValueError, match="truth value of an array"):
            client.step(np.zeros(12, np.float32))

    def test_its_benchmark_knows_robots_of_twelve_actions_only(self, serve: Any, port_of: Any, connect: Any) -> None:
        toy = connect(port_of(serve("toy")))
        toy.reset_agent()
        with pytest.raises(RuntimeError, match=r"actions have shape \(1, 12\), expected \(1, 2\)"):
            toy.benchmark(duration_seconds=0.1)

    def test_progress_is_reported_without_ever_failing(self, connect: Any, unused_port: int) -> None:
        assert connect(unused_port).report_progress(run_id="1") is None

    def test_a_closed_client_keeps_some_stubs_of_its_dead_channel(self, lucky: Any, client: Any) -> None:
        client.get_telemetry_schema()
        client.get_scene_info()
        client.close()
        with pytest.raises(lucky.GrpcConnectionError):
            client.get_scene_info()
        with pytest.raises(ValueError, match="closed channel"):
            client.get_telemetry_schema()

    def test_streamed_cameras_cannot_ask_for_depth(self, lucky: Any, client: Any) -> None:
        assert "kind" not in inspect.signature(client.stream_camera).parameters
        assert "kind" not in client.pb.camera.StreamCameraRequest.DESCRIPTOR.fields_by_name

    def test_eight_lidar_methods_have_no_wrapper(self, lucky: Any) -> None:
        source = inspect.getsource(lucky.client)
        methods = lucky.client.lidar_pb2.DESCRIPTOR.services_by_name["LidarService"].methods_by_name
        assert len([name for name in methods if f"self.lidar.{name}(" not in source]) == 8


class TestTheRest:
    def test_a_policy_env_makes_two_calls_more_than_it_has_commands(self, lucky: Any, session: Any, robot: Any) -> None:
        commands = ["SetVx", "SetVy", "SetYawRate"]
        with robot.policy_slot("Trot"):
            env = lucky.PolicyEnv(session, robot.entity_id, "Trot", commands, lambda response: 0.0)
            env.reset()
            with session.record() as recording:
                env.step(np.zeros(3, np.float32))
        assert [event.rpc.partition(".")[2] for event in recording.events] == [
            *["SetPolicyCommandFloat"] * 3,
            "Step",
            "GetPolicyLastAction",
        ]

    def test_a_policy_env_only_guesses_its_observation_space(self, lucky: Any, session: Any, robot: Any) -> None:
        with robot.policy_slot("Trot"):
            env = lucky.PolicyEnv(session, robot.entity_id, "Trot", ["SetVx"], lambda response: 0.0)
            assert env.observation_space.shape == (1,)
            env.reset()
            assert env.observation_space.shape == (12,)

    def test_a_policy_env_steps_on_when_its_session_cannot_be_reset(
        self, lucky: Any, session: Any, robot: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> None:
            raise RuntimeError("Reset failed")

        with robot.policy_slot("Trot"):
            env = lucky.PolicyEnv(session, robot.entity_id, "Trot", ["SetVx"], lambda response: 0.0)
            monkeypatch.setattr(session, "reset", fail)
            assert env.reset()[0].shape == (12,)

    def test_a_policy_monitor_cannot_be_iterated_asynchronously(self, session: Any, robot: Any) -> None:
        beginning = session.policy_monitor(robot.entity_id).__aiter__()
        assert not hasattr(beginning, "__anext__")  # so `async for` is a TypeError
        with pytest.raises(NotImplementedError):
            beginning.send(None)

    def test_replaying_a_recording_does_nothing(self, session: Any, robot: Any) -> None:
        commands = robot.commands("Trot")
        with session.record() as recording:
            commands["SetVx"] = 0.5
        commands["SetVx"] = 0.0
        recording.replay(session, speed=100.0)
        assert commands["SetVx"] == 0.0

    def test_the_async_controller_of_its_readme_has_no_policy_slot(self, lucky: Any) -> None:
        assert hasattr(lucky.RobotController, "policy_slot")
        assert not hasattr(lucky.AsyncRobotController, "policy_slot")

    def test_its_requirements_allow_versions_that_its_own_code_refuses(self, lucky: Any) -> None:
        assert {"grpcio>=1.60.0", "protobuf>=4.25.0"} <= set(requires("luckyrobots") or ())
        assert lucky.client.agent_pb2_grpc.GRPC_GENERATED_VERSION == "1.82.1"
        assert "Protobuf Python Version: 7.35.0" in inspect.getsource(lucky.client.agent_pb2)

    def test_its_messages_occupy_bare_file_names_in_the_default_pool(self, lucky: Any) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import Default

        assert Default().FindFileByName("agent.proto").package == "hazel.rpc"
        other = FileDescriptorProto(name="agent.proto", package="somebody.else").SerializeToString()
        with pytest.raises(TypeError, match="duplicate file name"):
            Default().AddSerializedFile(other)


class TestNotADefectHere:
    """What bites elsewhere and is cured by our server."""

    def test_calls_without_a_deadline_end_with_the_engine(
        self, lucky: Any, serve: Any, port_of: Any, connect: Any
    ) -> None:
        engine: EngineProcess = serve()
        client = connect(port_of(engine))
        stream = client.stream_full_state(target_fps=100)
        next(stream)
        engine.kill()
        unavailable = lucky.client.grpc.StatusCode.UNAVAILABLE
        with pytest.raises(lucky.client.grpc.RpcError) as caught:
            for _ in stream:
                pass
        assert caught.value.code() is unavailable
        with pytest.raises(lucky.client.grpc.RpcError) as caught:
            client.agent.ListRobotControllers(client.pb.agent.ListRobotControllersRequest())
        assert caught.value.code() is unavailable

    def test_named_access_finds_single_elements_because_we_name_each(self, client: Any) -> None:
        schema = client.get_agent_schema().schema
        assert len(schema.observation_names) == schema.observation_size
        assert len(schema.action_names) == schema.action_size
