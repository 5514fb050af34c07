"""Kill -9 of either end: a typed error at once, nothing left, the name usable again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import NotReachable, PeerDied, TransportError
from lucky_transport.process import EngineProcess
from lucky_transport_pipe.experiment import StateUpdate
from lucky_transport_pipe.instance import Instance
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("forked_engines")

INIT = {"WindSeed": 1, "InitialAngle": 0.01}


@pytest.fixture
def engine(name: str) -> Any:
    process = EngineProcess("cartpole", [f"pipe://{name}"], num_envs=2)
    yield process
    process.stop()


def test_a_killed_engine_ends_a_run(name: str, engine: EngineProcess) -> None:
    with Instance(name, timeout_s=PATIENCE_S) as instance:
        experiment = instance.experiment("cart_pole", [INIT])
        assert experiment.next() is not None
        assert isinstance(experiment.next(), StateUpdate)
        engine.kill()
        with pytest.raises(PeerDied, match="closed the pipe or ended"):
            experiment.next()
    with api.serve("cartpole", f"pipe://{name}"), Instance(name) as instance:
        assert instance.experiment("cart_pole", []).play(lambda _, state: None) == []


#: A program that comes to the pipe as a build does, and speaks no line.
_COMES = """
import socket, sys, time
from lucky_transport_pipe.address import path_of
end = socket.socket(socket.AF_UNIX)
while end.connect_ex(path_of(sys.argv[-1])): time.sleep(0.01)
"""

_CLIENTS = {
    "while it plays": """
from lucky_transport_pipe.instance import Instance
instance = Instance({name!r})
experiment = instance.experiment("cart_pole", [{{}}] * 3)
experiment.next()
""",
    "while it offers": """
from lucky_transport_pipe.listener import PipeListener
listener = PipeListener({name!r})
listener._listener.close()     # what the kernel does with a killed process: the file stays, and no process listens
""",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", _CLIENTS)
def test_a_killed_client_costs_the_engine_nothing(name: str, how: str, serving: Callable[..., Any]) -> None:
    """The engine lets go of its worlds, removes what the client left, and serves the next one."""
    with serving():
        program = _CLIENTS[how].format(name=name) + "\nprint('ready', flush=True)\nimport time; time.sleep(60)"
        client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()
        with Instance(name) as instance:
            assert instance.experiment("cart_pole", [INIT]).next() is not None


def test_a_program_that_ends_before_it_comes_is_reported_with_its_exit_report(name: str) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no display')"]
    with pytest.raises(NotReachable, match=r"(?s)ended before it came to pipe .*exit status 1.*no display"):
        Instance(name, command, connect_timeout_s=PATIENCE_S)


def test_a_program_that_dies_later_is_reported_with_its_last_words_too(name: str) -> None:
    program = _COMES + "end.recv(100); sys.exit('out of memory')"
    with (
        Instance(name, [sys.executable, "-c", program], timeout_s=PATIENCE_S) as instance,
        pytest.raises(PeerDied, match=r"(?s)its process: exit status 1.*out of memory"),
    ):
        instance.experiment("cart_pole", [])


def test_a_program_that_cannot_be_started_is_reported(name: str) -> None:
    with pytest.raises(NotReachable, match="cannot be started"):
        Instance(name, ["/nowhere/Training.x86_64"])


def test_an_engine_that_hangs_instead_of_quitting_is_killed(name: str) -> None:
    program = _COMES + "time.sleep(60)"
    instance = Instance(name, [sys.executable, "-c", program])
    process = instance._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    with pytest.raises(TransportError):
        instance.quit(timeout_s=0.2)
    assert not process.is_alive
    instance.close()


def test_a_served_engine_that_stops_ends_its_clients_wait(name: str) -> None:
    serving = api.serve("cartpole", f"pipe://{name}")
    with Instance(name, timeout_s=PATIENCE_S) as instance:
        experiment = instance.experiment("cart_pole", [INIT])
        next(event for event in experiment if isinstance(event, StateUpdate))
        serving.stop()
        with pytest.raises(PeerDied):
            experiment.next()
