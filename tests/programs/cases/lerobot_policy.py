"""LeRobot's asynchronous inference: its policy server with a tiny ACT policy, and its RobotClient with a fake robot."""

import json
import pickle
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import grpc
import numpy as np
from lerobot.async_inference.configs import PolicyServerConfig, RobotClientConfig
from lerobot.async_inference.helpers import TimedObservation
from lerobot.async_inference.policy_server import PolicyServer
from lerobot.async_inference.robot_client import RobotClient
from lerobot.robots import Robot, RobotConfig
from lerobot.transport import services_pb2, services_pb2_grpc
from serving import serving

_JOINTS = [f"joint{number}.pos" for number in range(6)]


@RobotConfig.register_subclass("program_fake")
@dataclass
class FakeConfig(RobotConfig):
    """A robot that needs no hardware."""


class Fake(Robot):
    """Six joints and a camera of 64 x 64."""

    config_class, name, is_connected, is_calibrated = FakeConfig, "program_fake", True, True
    observation_features = cached_property(lambda self: dict.fromkeys(_JOINTS, float) | {"front": (64, 64, 3)})
    action_features = cached_property(lambda self: dict.fromkeys(_JOINTS, float))

    def connect(self, calibrate=True):
        """There is nothing to do here, nor below."""

    calibrate = configure = disconnect = connect

    def get_observation(self, step=0):
        image = np.random.default_rng(step).integers(0, 255, (64, 64, 3), np.uint8)
        return {name: float(np.sin(step + index)) for index, name in enumerate(_JOINTS)} | {"front": image}

    def send_action(self, action):
        return action


def _save_policy(folder):
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors

    torch.manual_seed(0)
    state, image = PolicyFeature(FeatureType.STATE, (6,)), PolicyFeature(FeatureType.VISUAL, (3, 64, 64))
    config = ACTConfig(
        input_features={"observation.state": state, "observation.images.front": image},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (6,))},
        dim_model=32,
        n_heads=2,
        dim_feedforward=64,
        n_encoder_layers=1,
        n_decoder_layers=1,
        chunk_size=8,
        n_action_steps=8,
        use_vae=False,
        device="cpu",
        push_to_hub=False,
        pretrained_backbone_weights=None,
    )
    ACTPolicy(config).save_pretrained(folder)
    statistics = {}
    for name, shape in (("observation.state", 6), ("action", 6), ("observation.images.front", (3, 1, 1))):
        zeros, ones = torch.zeros(shape), torch.ones(shape)
        statistics[name] = {"mean": zeros, "std": ones, "min": zeros, "max": ones}
    for processor in make_pre_post_processors(config, dataset_stats=statistics):
        processor.save_pretrained(folder)


@contextmanager
def server(port):
    """Serve the policy server as its own `serve` does."""
    config = PolicyServerConfig(host="127.0.0.1", port=port, inference_latency=0.001, obs_queue_timeout=0.5)
    policies = PolicyServer(config)
    with serving(port, lambda server: services_pb2_grpc.add_AsyncInferenceServicer_to_server(policies, server)):
        yield


@contextmanager
def client(port):
    """Send observations, and take chunks of actions, by the robot client."""
    threading.excepthook = lambda arguments: None
    with tempfile.TemporaryDirectory() as folder:
        _save_policy(Path(folder))
        config = RobotClientConfig(
            robot=FakeConfig(),
            server_address=f"127.0.0.1:{port}",
            policy_type="act",
            pretrained_name_or_path=folder,
            actions_per_chunk=8,
            policy_device="cpu",
        )
        robot = RobotClient(config)
        assert robot.start()
    steps = iter(range(1_000_000))

    def chunk():
        step = next(steps)
        seen = TimedObservation(1000.0 + step / 30, step, robot.robot.get_observation(step), must_go=True)
        assert robot.send_observation(seen)
        return pickle.loads(robot.stub.GetActions(services_pb2.Empty(), timeout=60).data)

    def equal():
        return {"actions": json.loads(json.dumps([[one.get_action().tolist() for one in chunk()] for _ in range(20)]))}

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ready = services_pb2_grpc.AsyncInferenceStub(channel).Ready
        yield equal, lambda: ready(services_pb2.Empty(), timeout=60), chunk
    robot.stop()
