"""Where a pipe is, which rules an endpoint sets, bytes over a connection, and kill -9 of either end."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from lucky_transport import api, errors
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.process import EngineProcess
from lucky_transport_pipe.address import path_of
from lucky_transport_pipe.connection import PipeConnection
from lucky_transport_pipe.experiment import StateUpdate
from lucky_transport_pipe.instance import Instance
from lucky_transport_pipe.listener import PipeListener
from lucky_transport_pipe.options import SessionRules, rules_of
from tests.plugins.failing_starts import no_descriptors
from tests.support.waiting import PATIENCE_S, call_later, in_a_child, until

pytestmark = pytest.mark.usefixtures("forked_engines")


def test_an_engine_at_a_pipe_is_no_batch_and_connect_names_what_is() -> None:
    for connect in (lucky_transport.connect, lambda endpoint: lucky_transport.make(endpoint=endpoint)):
        with pytest.raises(errors.Unimplemented, match=r"pipe\.instance\.Instance, or serve the engine at shm://"):
            connect("pipe://train")
    with pytest.raises(errors.ConfigError, match=r"'pipe' cannot start an engine by itself; .*shm"):
        lucky_transport.make("cartpole", transport="pipe")


def test_a_served_pipe_without_a_name_gets_one() -> None:
    with api.serve("cartpole", "pipe:") as serving, Instance(serving.endpoints[0].address) as instance:
        assert instance.experiment("cart_pole", []).play(lambda _, state: None) == []


def test_an_engine_makes_no_socket_for_another_file_in_its_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(path: str, exists: Callable[[str], bool] = os.path.lexists) -> bool:
        looked.append(path)
        return exists(path)

    def refuse(*_: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(os.path, "lexists", look)
    with api.serve("cartpole", f"pipe://{name}"):
        monkeypatch.setattr(socket, "socket", refuse)
        before = len(looked)
        with tempfile.NamedTemporaryFile(dir=Path(path_of(name)).parent):
            until(lambda: looked[before:].count(path_of(name)) > 1)
        monkeypatch.undo()


def test_a_pipe_is_where_dotnet_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert path_of("train") == "/var/tmp/CoreFxPipe_train"
    assert path_of(r"\\.\pipe\train") == path_of(r"\\.\pipe\/train") == "/var/tmp/CoreFxPipe_train"
    assert path_of("/run/x.sock") == "/run/x.sock"
    monkeypatch.delenv("TMPDIR")
    assert path_of("train") == "/tmp/CoreFxPipe_train"


@pytest.mark.parametrize("wrong", ["", "a/b", "x" * 200, "a\0b"])
def test_a_name_that_makes_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(errors.ConfigError):
        path_of(wrong)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "x"
    place.write_text("precious")
    with pytest.raises(errors.ConfigError, match="no socket is there"):
        Instance(str(place))
    assert place.read_text() == "precious"


def test_a_place_where_another_program_listens_is_left_alone(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path_of(name))
        listener.listen(1)
        with pytest.raises(errors.Busy, match="another program listens"):
            Instance(name)
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(path_of(name))
        Path(path_of(name)).unlink()


def test_an_endpoint_says_the_rules() -> None:
    endpoint = Endpoint.parse("pipe://x?slots=3&stepping=independent&timeout_s=2.5")
    assert rules_of(endpoint, 60.0) == SessionRules(3, False, 2.5)
    assert rules_of(Endpoint.parse("pipe://x"), 7.0) == SessionRules(16, True, 7.0)


@pytest.mark.parametrize("wrong", ["slots=0", "slots=a", "stepping=fast", "timeout_s=0", "timeout_s=nan", "color=red"])
def test_a_wrong_rule_is_refused(wrong: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"expected |there are slots, stepping, timeout_s"):
        rules_of(Endpoint.parse(f"pipe://x?{wrong}"), 60.0)


def test_a_client_that_may_open_no_more_files_says_so_and_leaves_nothing(name: str) -> None:
    for allowed in range(2):
        with no_descriptors(allowed), pytest.raises(errors.TransportError, match=r"too many open files.*ulimit -n"):
            PipeListener(name)
        PipeListener(name).close()


# bytes over a connection: nothing stands still, and every wait ends


@pytest.fixture
def ends() -> Generator[tuple[PipeConnection, PipeConnection]]:
    one, other = socket.socketpair()
    with closing(PipeConnection(one, "the other")) as first, closing(PipeConnection(other, "the one")) as second:
        yield first, second


def test_closing_ends_a_wait_of_another_thread_and_refuses_everything_after_it(ends: Any) -> None:
    one, _ = ends
    call_later(one.close)
    with pytest.raises(errors.ClosedError):
        one.receive(Deadline(PATIENCE_S))
    for use in (lambda: one.receive(Deadline(0)), lambda: one.send(b"x", Deadline(0))):
        with pytest.raises(errors.ClosedError):
            use()


def test_a_peer_that_takes_nothing_is_told_by_the_deadline(ends: Any) -> None:
    one, _ = ends
    with pytest.raises(errors.PeerTimeout, match=r"bytes within 0\.05 s"):
        one.send(b"x" * (64 << 20), Deadline(0.05))


def test_two_sides_that_both_write_before_they_read_both_get_done(ends: Any) -> None:
    one, other = ends
    data = b"x" * (8 << 20)

    def write_and_read(end: PipeConnection) -> int:
        end.send(data, Deadline(PATIENCE_S))
        received = 0
        while received < len(data):
            received += len(end.receive(Deadline(PATIENCE_S)))
        return received

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write_and_read, (one, other))) == [len(data)] * 2
    with pytest.raises(errors.PeerTimeout):
        one.receive(Deadline(0))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_its_parent_goes_on(ends: Any) -> None:
    one, other = ends

    def send() -> None:
        with pytest.raises(errors.ClosedError):
            one.send(b"child", Deadline(1))

    assert in_a_child(send)
    one.send(b"parent", Deadline(1))
    assert other.receive(Deadline(1)) == b"parent"


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
        with pytest.raises(errors.PeerDied, match="closed the pipe or ended" if end == "kill" else None):
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
            errors.NotReachable,
            "ended before it came to pipe .*exit status 1.*no display",
        ),
        pytest.param(
            _COMES + "end.recv(100); sys.exit('out of memory')",
            errors.PeerDied,
            "its process: exit status 1.*out of memory",
            marks=pytest.mark.exhaustive,
        ),
        ("", errors.NotReachable, "cannot be started"),
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
    with pytest.raises(errors.TransportError):
        instance.quit(timeout_s=0.2)
    assert not process.is_alive
    instance.close()
