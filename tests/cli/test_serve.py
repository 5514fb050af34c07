"""`lucky-transport serve`: it says when it is ready, refuses what cannot be served, and ends without a trace."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from lucky_transport.shm.files import lockfile
from tests.cli.conftest import Refusal, Run, Start
from tests.support.forked_programs import CommandLine, Program
from tests.support.waiting import PATIENCE_S, until

Process = subprocess.Popen[str] | Program


def first_line(process: Process, timeout_s: float = PATIENCE_S) -> str:
    """Return the next line of the process's stdout; what it wrote to stderr instead fails the test."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):  # byte by byte, so that no later line is lost in a buffer
        ready, _, _ = select.select([process.stdout], [], [], timeout_s)
        byte = os.read(process.stdout.fileno(), 1) if ready else b""
        if not byte:
            process.kill()
            pytest.fail(f"the process wrote {line!r} and on stderr: {process.communicate()[1]}")
        line += byte
    return line.decode().rstrip("\n")


def names() -> set[str]:
    """Return what lies in the shared-memory directory now."""
    return set(os.listdir(lockfile.DIRECTORY))


# --- it is ready, and it ends ---


@pytest.mark.parametrize("scheme", ["inproc", "shm"])
@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM,), (signal.SIGINT,), (signal.SIGHUP,), (signal.SIGINT, signal.SIGINT)],
    ids=["SIGTERM", "SIGINT", "SIGHUP", "an impatient double Ctrl-C"],
)
def test_a_signal_ends_what_is_ready_with_exit_code_0_and_not_a_word(
    start: Start, numbers: tuple[signal.Signals, ...], scheme: str
) -> None:
    name = unique_name()
    process = start("serve", "toy", "--endpoint", f"{scheme}://{name}", "--num-envs", "4")
    assert first_line(process) == f"ready {scheme}://{name}"
    assert (name in names()) == (scheme == "shm")
    for number in numbers:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout, stderr) == (0, "", "")
    assert not [left for left in names() if name in left]


#: `lucky-transport` where a start on a busy machine may take longer than an engine has to end in order.
PATIENT = f"""
from lucky_transport.cli import main, shutdown
shutdown.Shutdown.__init__.__kwdefaults__["limit_s"] = {PATIENCE_S}
main.main()
"""


@pytest.mark.exhaustive
def test_a_signal_while_the_engine_starts_ends_it_once_it_has_started(environ: dict[str, str]) -> None:
    slow = ["--options", json.dumps({"start_delay_s": 0.3})]
    command = [sys.executable, "-c", PATIENT, "serve", "toy", "--endpoint", "inproc://here", *slow]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        _until_the_engine_is_loading(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.exhaustive
def test_an_engine_that_never_starts_cannot_keep_its_process(command_line: CommandLine) -> None:
    slow = ["--options", json.dumps({"start_delay_s": 3600})]
    process = command_line.start("serve", "toy", "--endpoint", "inproc://here", *slow)
    _until_the_engine_is_loading(process.pid)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "ended by force" in stderr


def _until_the_engine_is_loading(pid: int) -> None:
    """Return once NumPy is mapped, in no fork: only engines need it, and signals have been watched since before."""
    maps = Path(f"/proc/{pid}/maps")
    until(lambda: "_multiarray_umath" in maps.read_text())


PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "lucky_transport", "serve", "toy", "--endpoint", sys.argv[1],
                          "--parent-pid", str(os.getpid())], stdout=subprocess.PIPE, text=True, start_new_session=True)
print(child.pid, child.stdout.readline(), end="", flush=True)
time.sleep(600)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["inproc", "shm"])
def test_it_ends_with_the_process_that_started_it_even_if_that_is_killed(scheme: str) -> None:
    name = unique_name()
    parent = subprocess.Popen([sys.executable, "-c", PARENT, f"{scheme}://{name}"], stdout=subprocess.PIPE, text=True)
    try:
        pid, _, said = first_line(parent).partition(" ")
        assert said == f"ready {scheme}://{name}"
        child = os.pidfd_open(int(pid))
        try:
            parent.kill()
            assert select.select([child], [], [], PATIENCE_S)[0], "the engine outlived its parent"
        finally:
            os.close(child)
    finally:
        parent.kill()
        parent.communicate(timeout=PATIENCE_S)
    assert not [left for left in names() if name in left]


def test_a_reader_that_goes_away_before_it_is_ready_is_no_traceback(start: Start) -> None:
    process = start("serve", "toy", "--endpoint", "inproc://here", "--options", json.dumps({"start_delay_s": 0.5}))
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "Traceback" not in stderr


# --- over real transports ---


def test_one_engine_serves_several_endpoints_and_port_0_picks_a_free_one(start: Start) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("lucky_transport_grpc.server")
    name = unique_name()
    process = start("serve", "toy", "--endpoint", f"shm://{name}", "--endpoint", "grpc://127.0.0.1:0")
    assert first_line(process) == f"ready shm://{name}"
    scheme, _, port = first_line(process).rpartition(":")
    assert scheme == "ready grpc://127.0.0.1"
    socket.create_connection(("127.0.0.1", int(port)), timeout=10).close()
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=10)


def test_a_name_in_use_is_refused_with_the_engines_pid(start: Start, run: Run) -> None:
    name = unique_name()
    process = start("serve", "toy", "--endpoint", f"shm://{name}")
    first_line(process)
    done = run("serve", "toy", "--endpoint", f"shm://{name}")
    assert done.returncode == 1
    assert str(process.pid) in done.stderr
    assert "use another name" in done.stderr
    assert process.poll() is None


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nothing", "--endpoint", "inproc://x"], 1, "no engine 'nothing'"),
        (["tpy", "--endpoint", "inproc://x"], 1, "did you mean 'toy'?"),
        (["toy", "--endpoint", "carrier-pigeon://x"], 1, "no endpoint scheme 'carrier-pigeon'"),
        (["toy", "--endpoint", "not a url"], 1, "is not a URL"),
        (["toy"], 2, "Missing option '--endpoint'"),
        (["toy", "--endpoint", "inproc://x", "--num-envs", "0"], 2, "0 is not in the range x>=1"),
        (["toy", "--endpoint", "inproc://x", "--options", "{"], 2, "'{' is no JSON"),
        (["toy", "--endpoint", "inproc://x", "--options", "[1]"], 2, "'[1]' is no JSON object"),
        (["toy", "--endpoint", "inproc://x", "--options", '{"colour": 1}'], 1, "colour"),
        (["toy:sad", "--endpoint", "inproc://x"], 1, "no variant 'sad'"),
        (["toy", "--endpoint", "inproc://x", "--wait", "never"], 2, "'never' is not one of"),
        (["toy", "--endpoint", "inproc://x", "--endpoint", "inproc://x"], 1, "is taken"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_served_is_refused_why(refusal: Refusal, arguments: list[str], code: int, text: str) -> None:
    status, printed = refusal("serve", *arguments)
    assert status == code
    assert text in printed
    assert "ready" not in printed


# --- what a person sees ---


@pytest.mark.exhaustive
def test_at_a_terminal_it_says_how_to_connect_look_and_stop(environ: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    name = unique_name()
    command = [sys.executable, "-m", "lucky_transport", "serve", "toy", "--endpoint", f"shm://{name}"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    try:
        assert first_line(process) == f"ready shm://{name}"
        shown = b""
        while b"Ctrl-C" not in shown:
            assert select.select([ours], [], [], PATIENCE_S)[0], shown
            shown += os.read(ours, 4096)
        assert f"make(endpoint='shm://{name}')" in shown.decode()
        assert f"lucky-transport inspect shm://{name}" in shown.decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert b"stopped" in os.read(ours, 4096)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        os.close(ours)


@pytest.mark.exhaustive
def test_a_module_in_the_working_folder_is_found_and_shadows_none(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    entry = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    (tmp_path / "lucky_tank.py").write_text(f"import gymnasium\ngymnasium.register('Tank-v0', {entry!r})\n")
    (tmp_path / "numpy.py").write_text("raise ImportError('a file that stands there by accident')\n")
    endpoint = f"shm://{unique_name()}"
    command = [sys.executable, "-P", "-m", "lucky_transport"]  # as the script does, which has no working folder
    serve = [*command, "serve", "gymnasium:lucky_tank:Tank-v0", "--endpoint", endpoint]
    pipe = subprocess.PIPE
    process = subprocess.Popen(serve, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    try:
        assert first_line(process) == f"ready {endpoint}"
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
