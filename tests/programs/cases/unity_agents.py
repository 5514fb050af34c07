"""ML-Agents: its UnityEnvironment, which is the gRPC server, and a stand-in of Unity that speaks its protos."""

import threading
from contextlib import contextmanager

import grpc
import numpy as np
from mlagents_envs.communicator_objects.command_pb2 import RESET
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from mlagents_envs.communicator_objects.unity_output_pb2 import UnityOutputProto
from mlagents_envs.communicator_objects.unity_to_external_pb2_grpc import UnityToExternalProtoStub
from mlagents_envs.environment import ActionTuple, UnityEnvironment

_BRAIN, _AGENTS, _SIZE = "Ball?team=0", 4, 8


class Ball:
    """Four agents whose observations follow from their actions; an episode has 20 steps."""

    def __init__(self):
        self.values, self.steps = np.zeros((_AGENTS, _SIZE), np.float32), 0

    def first(self):
        """Return what Unity says first: the behavior, with one look at its agents."""
        output = UnityOutputProto()
        begin = output.rl_initialization_output
        begin.name, begin.communication_version, begin.package_version = "Ball", "1.5.0", "2.0.1"
        begin.capabilities.baseRLCapabilities = True
        brain = begin.brain_parameters.add(brain_name=_BRAIN, is_training=True)
        brain.action_spec.num_continuous_actions = 2
        self._look(output)
        return output

    def answer(self, rl_input):
        """Return what Unity says to a reset or a step."""
        is_over = self.steps == 20
        if rl_input.command == RESET or is_over:
            self.values[:], self.steps = 0, 0
        else:
            actions = [list(one.continuous_actions) for one in rl_input.agent_actions[_BRAIN].value]
            if actions:
                self.values[:, :2] += np.asarray(actions, np.float32)
            self.values[:, 2] = self.steps = self.steps + 1
        output = UnityOutputProto()
        self._look(output)
        return output

    def _look(self, output):
        for number, row in enumerate(self.values):
            agent = output.rl_output.agentInfos[_BRAIN].value.add(id=number, reward=float(row[0]))
            agent.done = agent.max_step_reached = self.steps == 20
            agent.observations.add(shape=[_SIZE], name="state", dimension_properties=[1]).float_data.data.extend(row)


def _unity(port, is_ended):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        unity, ball = UnityToExternalProtoStub(channel), Ball()
        unity.Exchange(UnityMessageProto(unity_output=ball.first()), wait_for_ready=True, timeout=120)
        output = UnityMessageProto(unity_output=UnityOutputProto())
        while not is_ended.is_set():
            reply = unity.Exchange(output, timeout=120)
            if reply.header.status != 200:
                break
            output = UnityMessageProto(unity_output=ball.answer(reply.unity_input.rl_input))
            output.header.status = 200


@contextmanager
def server(port):
    """Be Unity: call the Python side until it ends."""
    is_ended = threading.Event()
    unity = threading.Thread(target=_unity, args=(port, is_ended), daemon=True)
    unity.start()
    yield
    is_ended.set()
    unity.join(20)


@contextmanager
def client(port):
    """Be the trainer: listen, and step."""
    env = UnityEnvironment(file_name=None, base_port=port, timeout_wait=100)
    env.reset()
    actions = np.random.default_rng(0)

    def step():
        decisions, _ = env.get_steps(_BRAIN)
        if len(decisions):
            values = actions.uniform(-1, 1, (len(decisions), 2)).astype(np.float32)
            env.set_actions(_BRAIN, ActionTuple(continuous=values))
        env.step()
        return env.get_steps(_BRAIN)

    def equal():
        seen = [step() for _ in range(60)]
        return {
            "behavior": str(env.behavior_specs[_BRAIN]),
            "observations": [[steps.obs[0].tolist() for steps in pair] for pair in seen],
            "rewards": [[steps.reward.tolist() for steps in pair] for pair in seen],
        }

    yield equal, step, step
    env.close()
