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


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_an_engine_that_ends_ends_a_run_and_the_next_one_comes(name: str, engine: EngineProcess, end: str) -> None:
    with Instance(name, timeout_s=PATIENCE_S) as instance:
        experiment = instance.experiment("cart_pole", [INIT])
        assert experiment.next() is not None
        assert isinstance(experiment.next(), StateUpdate)
        getattr(engine, end)()
        with pytest.raises(PeerDied, match="closed the pipe or ended" if end == "kill" else None):
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


@pytest.mark.parametrize(
    ("program", "error", "why"),
    [
        (
            "import sys; sys.exit('no display')",
            NotReachable,
            "ended before it came to pipe .*exit status 1.*no display",
        ),
        pytest.param(
            _COMES + "end.recv(100); sys.exit('out of memory')",
            PeerDied,
            "its process: exit status 1.*out of memory",
            marks=pytest.mark.exhaustive,
        ),
        ("", NotReachable, "cannot be started"),
    ],
    ids=["before it comes", "later", "is none"],
)
def test_a_program_that_ends_is_reported_with_its_last_words(
    name: str, program: str, error: type[Exception], why: str
) -> None:
    command = [sys.executable, "-c", program] if program else ["/nowhere/Training.x86_64"]
    with pytest.raises(error, match=f"(?s){why}"), Instance(name, command, timeout_s=PATIENCE_S) as instance:
        instance.experiment("cart_pole", [])


@pytest.mark.exhaustive
def test_an_engine_that_hangs_instead_of_quitting_is_killed(name: str) -> None:
    program = _COMES + "time.sleep(60)"
    instance = Instance(name, [sys.executable, "-c", program])
    process = instance._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    with pytest.raises(TransportError):
        instance.quit(timeout_s=0.2)
    assert not process.is_alive
    instance.close()
