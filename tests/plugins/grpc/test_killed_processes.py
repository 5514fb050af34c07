"""A process is killed while another one depends on it: the other gets an error at once and can go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.serving import Serving

pytestmark = pytest.mark.usefixtures("forked_engines")

Serve = Callable[..., Serving]


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
