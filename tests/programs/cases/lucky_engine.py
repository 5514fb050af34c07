"""luckyrobots' client against an engine of this project, served over gRPC or, under `run`, where the map says."""

import os
from contextlib import contextmanager


@contextmanager
def server(port):
    """Serve the quadruped."""
    pair = os.environ.get("LUCKY_GRPC_MAP", "")
    endpoint = pair.partition("=")[2] or f"grpc://127.0.0.1:{port}"
    from lucky_transport.process import EngineProcess

    engine = EngineProcess("mujoco:quadruped", [endpoint])
    try:
        yield
    finally:
        engine.stop()


@contextmanager
def client(port):
    """Step the robot by the package's own client."""
    from luckyrobots import LuckyEngineClient

    found = LuckyEngineClient(host="127.0.0.1", port=port, robot_name="quadruped")
    found.connect()
    found.reset_agent()

    def step():
        return found.step([0.1] * 12)

    def equal():
        first = found.reset_agent()
        observations = [[round(value, 6) for value in step().observation] for _ in range(50)]
        return {
            "reset": first.success,
            "observations": observations,
            "schema": str(found.get_agent_schema()),
            "scene": str(found.list_entities()),
        }

    yield equal, lambda: found.get_joint_state(), step
    found.close()
