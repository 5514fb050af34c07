"""Either half is killed: the other one is told at once, nothing is left behind, and a new pair starts in its place."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.errors import PeerDied
from lucky_transport.testing.suite import PATIENCE_S, every, zeros
from tests.support.waiting import until

_CLIENT = """
import sys, time
from lucky_transport import api
client = api.open_transport(sys.argv[1])
client.step(client.actions)
if sys.argv[2] == "stepping":
    client.send(client.actions)
print("there", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("doing", ["waiting", "between"])
def test_a_killed_engine_is_told_and_a_new_one_starts_in_its_place(bench: Any, doing: str) -> None:
    endpoint = f"holodeck://{bench.names.uuid}"
    engine = bench.spawn(num_envs=2, hang_at=3)
    with api.open_transport(endpoint) as client:
        client.step(zeros(client), every(client, RESET))
        client.step(zeros(client))
        if doing == "waiting":
            killer = threading.Timer(0.1, engine.kill)
            killer.start()
        else:
            engine.kill()
        began = time.monotonic()
        with pytest.raises(PeerDied, match="ended"):
            client.step(zeros(client))
        assert time.monotonic() - began < PATIENCE_S
        with pytest.raises(PeerDied):
            client.step(zeros(client))
        assert bench.leftovers() == []  # the client that saw it die has cleaned up
        engine.stop()
        again = bench.spawn(num_envs=2)
        with api.open_transport(endpoint) as other:
            assert other.step(zeros(other), every(other, RESET)).observations.any()
        assert again.stop() == 0


def test_a_killed_engine_that_nobody_saw_die_is_replaced(bench: Any) -> None:
    endpoint = f"holodeck://{bench.names.uuid}"
    engine = bench.spawn()
    engine.kill()
    engine.stop()
    again = bench.spawn()
    with api.open_transport(endpoint) as client:
        client.step(client.actions)
    assert again.stop() == 0


@pytest.mark.parametrize("doing", ["waiting", "stepping"])
def test_a_killed_client_frees_the_engine(bench: Any, doing: str) -> None:
    endpoint = f"holodeck://{bench.names.uuid}"
    with api.serve("toy", endpoint) as serving:
        with subprocess.Popen([sys.executable, "-c", _CLIENT, endpoint, doing], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            assert serving.host.driver.startswith("Holodeck client of pid")
            process.kill()
            process.wait(PATIENCE_S)
        until(lambda: not serving.host.driver)
        with api.open_transport(endpoint) as client:
            client.step(client.actions)


def test_a_closing_engine_is_told_to_a_client_that_waits(bench: Any) -> None:
    endpoint = f"holodeck://{bench.names.uuid}"
    serving = api.serve("toy", endpoint, options={"step_delay_s": 0.2})
    with api.open_transport(endpoint) as client:
        client.step(client.actions)
        serving.stop()
        with pytest.raises(PeerDied, match="the engine closed"):
            client.step(client.actions)
