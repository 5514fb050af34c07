"""dm_env_rpc: an environment served by EnvironmentServer, driven as a dm_env.Environment through its own adaptors."""

from contextlib import contextmanager

import numpy as np
from dm_env_rpc.v1 import (
    connection,
    dm_env_adaptor,
    dm_env_rpc_pb2,
    dm_env_rpc_pb2_grpc,
    tensor_spec_utils,
    tensor_utils,
)

_ACTION, _BOARD, _REWARD = 1, 1, 2
_ROWS, _COLUMNS = 10, 5


def _spec(name, dtype, shape=(), low=None, high=None):
    spec = dm_env_rpc_pb2.TensorSpec(name=name, shape=shape, dtype=tensor_utils.np_type_to_data_type(dtype))
    if low is not None:
        tensor_spec_utils.set_bounds(spec, minimum=low, maximum=high)
    return spec


_SPECS = dm_env_rpc_pb2.ActionObservationSpecs(
    actions={_ACTION: _spec("paddle", np.int8, low=-1, high=1)},
    observations={_BOARD: _spec("board", np.float32, (_ROWS, _COLUMNS)), _REWARD: _spec("reward", np.float32)},
)


class Catch(dm_env_rpc_pb2_grpc.EnvironmentServicer):
    """The game of dm_env_rpc's own example: catch the ball that falls."""

    def Process(self, requests, context):
        game = np.random.default_rng(0)
        ball, paddle = [0, 0], 0
        for request in requests:
            kind, answer = request.WhichOneof("payload"), dm_env_rpc_pb2.EnvironmentResponse()
            if kind == "create_world":
                answer.create_world.world_name = "catch"
            elif kind == "join_world":
                answer.join_world.specs.CopyFrom(_SPECS)
                ball, paddle = [0, int(game.integers(_COLUMNS))], _COLUMNS // 2
            elif kind == "reset":
                answer.reset.specs.CopyFrom(_SPECS)
                ball, paddle = [0, int(game.integers(_COLUMNS))], _COLUMNS // 2
            elif kind == "step":
                if ball[0] == _ROWS:  # the episode that ended makes room for the next
                    ball, paddle = [0, int(game.integers(_COLUMNS))], _COLUMNS // 2
                elif _ACTION in request.step.actions:
                    move = tensor_utils.unpack_tensor(request.step.actions[_ACTION])
                    paddle, ball[0] = int(np.clip(paddle + move, 0, _COLUMNS - 1)), ball[0] + 1
                board = np.zeros((_ROWS, _COLUMNS), np.float32)
                board[min(ball[0], _ROWS - 1), ball[1]] = board[-1, paddle] = 1
                is_over = ball[0] == _ROWS
                reward = np.float32((1 if ball[1] == paddle else -1) if is_over else 0)
                answer.step.state = dm_env_rpc_pb2.TERMINATED if is_over else dm_env_rpc_pb2.RUNNING
                values = {_BOARD: board, _REWARD: reward}
                for uid in request.step.requested_observations:
                    answer.step.observations[uid].CopyFrom(tensor_utils.pack_tensor(values[uid]))
            elif kind == "leave_world":
                answer.leave_world.SetInParent()
            elif kind == "destroy_world":
                answer.destroy_world.SetInParent()
            else:
                answer.error.message = f"no {kind} here"
            yield answer


def register(server):
    """Serve the game."""
    dm_env_rpc_pb2_grpc.add_EnvironmentServicer_to_server(Catch(), server)


@contextmanager
def client(port):
    """Play it by random actions."""
    with connection.create_secure_channel_and_connect(f"127.0.0.1:{port}") as found:
        env, world = dm_env_adaptor.create_and_join_world(found, create_world_settings={}, join_world_settings={})
        actions = np.random.default_rng(1)

        def step():
            return env.step({"paddle": int(actions.integers(-1, 2))})

        def equal():
            steps = [env.reset(), *(step() for _ in range(200))]
            try:
                found.send(dm_env_rpc_pb2.ResetWorldRequest(world_name="other"))
                refused = ""
            except Exception as error:
                refused = str(error)
            return {
                "boards": [one.observation["board"].tolist() for one in steps],
                "rewards": [None if one.reward is None else float(one.reward) for one in steps],
                "types": [one.step_type.name for one in steps],
                "refused": refused,
            }

        with env:
            yield equal, step, step
        found.send(dm_env_rpc_pb2.DestroyWorldRequest(world_name=world))
