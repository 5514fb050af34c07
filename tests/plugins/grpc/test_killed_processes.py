"""A process is killed while another one depends on it: the other gets an error at once and can go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.errors import PeerDied
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess
from lucky_transport.serving import Serving
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("forked_engines")

Serve = Callable[..., Serving]


@contextmanager
def _engine_process(**options: Any) -> Generator[EngineProcess]:
    process = EngineProcess("toy", ["grpc://127.0.0.1:0"], num_envs=3, options=options)
    try:
        yield process
    finally:
        process.stop()


@pytest.mark.parametrize("service", ["batch", "agent"])
def test_an_engine_killed_while_a_client_waits_ends_the_wait(connect: Any, zeros: Any, service: str) -> None:
    with _engine_process(hang_at=2) as process:
        client = connect(process.endpoints[0], service)
        client.step(zeros(client))
        client.send(zeros(client))
        killer = threading.Timer(0.2, process.kill)
        killer.start()
        with pytest.raises(PeerDied, match="start the engine again, then connect again"):
            client.recv()
        killer.join()
        with pytest.raises(PeerDied, match="the engine is gone; connect again"):
            client.step(zeros(client))


def test_an_engine_killed_in_a_blocking_step_ends_it(connect: Any, zeros: Any) -> None:
    with _engine_process(hang_at=2) as process:
        client = connect(process.endpoints[0], "batch")
        client.step(zeros(client))
        killer = threading.Timer(0.2, process.kill)
        killer.start()
        with pytest.raises(PeerDied):
            client.step(zeros(client))
        killer.join()


def test_an_engine_that_leaves_its_process_is_a_dead_peer(connect: Any, zeros: Any) -> None:
    with _engine_process(exit_at=2) as process:
        client = connect(process.endpoints[0])
        client.step(zeros(client))
        with pytest.raises(PeerDied):
            client.step(zeros(client))
        row = method("AgentService/GetAgentSchema")
        with pytest.raises(PeerDied):
            client.call(row, row.request())


_CLIENT = """
import sys, time
import numpy as np
import lucky_transport

client = lucky_transport.connect(sys.argv[1]).transport
client.step(np.zeros(client.spec.action_shape, np.float32))
print("stepped", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("service", ["batch", pytest.param("agent", marks=pytest.mark.exhaustive)])
def test_a_client_that_is_killed_makes_room_for_the_next(serve: Serve, connect: Any, zeros: Any, service: str) -> None:
    serving = serve(idle_s=3600.0)
    url = f"{serving.endpoints[0]}?service={service}"
    with subprocess.Popen([sys.executable, "-c", _CLIENT, url], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"stepped\n"
            assert f"pid {process.pid} " in serving.host.driver
        finally:
            os.kill(process.pid, signal.SIGKILL)
    until(lambda: not serving.host.driver)
    client = connect(serving)
    assert client.step(zeros(client)).seq == 1


@pytest.mark.exhaustive
def test_a_client_that_is_killed_in_the_middle_of_a_batch_leaves_nothing(
    serve: Serve, connect: Any, zeros: Any
) -> None:
    serving = serve(num_envs=3, idle_s=0.0)
    script = _CLIENT.replace("time.sleep(60)", "").replace(
        "client.step(np.zeros(client.spec.action_shape, np.float32))",
        "from lucky_transport_grpc import _pb\n"
        "path = '/hazel.rpc.AgentService/Step'\n"
        "found = _pb.methods()[path]\n"
        "step = client._connection.method(path)\n"
        "metadata = client._connection.identity + (('lucky-batch', '3'),)\n"
        "calls = [step.future(found.request(agent_name=f'agent_{i}'), metadata=metadata) for i in range(2)]\n"
        "time.sleep(0.2)\n"
        "import os; os._exit(0)\n",
    )
    subprocess.run([sys.executable, "-c", script, str(serving.endpoints[0])], check=True, timeout=PATIENCE_S)
    client = connect(serving, "agent")
    assert client.step(zeros(client)).seq == 1


@pytest.mark.exhaustive
def test_a_fork_beside_a_server_does_not_crash_the_child() -> None:
    script = """
import os, warnings
import numpy as np
import lucky_transport

warnings.simplefilter("ignore", DeprecationWarning)
with lucky_transport.serve("toy", "grpc://127.0.0.1:0") as serving:
    with lucky_transport.connect(str(serving.endpoints[0])) as client:
        for _ in range(60):
            client.transport.step(np.zeros((1, 2), np.float32))
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
"""
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_ENABLE_FORK_SUPPORT"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100, env=environment)
