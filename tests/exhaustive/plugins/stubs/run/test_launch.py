"""The launcher as a process: exit status, signals and streams are the program's own."""

from __future__ import annotations

import json
import os
import pty
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_transport.count_folders import remove_left_over
from lucky_transport_stubs.run.launch import end_like
from tests.support.waiting import until

Launch = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
Python = Callable[..., list[str]]

GRPC = ("--transport", "grpc")

#: Tells its pid, then what signals it gets, and ends with 5 at SIGTERM.
LISTENING = """
import os, signal, sys
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)  # a signal that comes before the read is in the pipe; signal.pause() would miss it
def heard(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(5)
for name in "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2":
    signal.signal(getattr(signal, name), heard)
print(os.getpid(), flush=True)
while True:
    os.read(woken, 1)
"""


def line(process: subprocess.Popen[str]) -> str:
    """The next line of a process's stdout."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def gone(pid: int, patience_s: float = 10.0) -> bool:
    """True once there is no such process, or only its zombie."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("status", [0, 1, 7, 78, 255])
def test_the_exit_status_is_the_programs(launch: Launch, python: Python, status: int) -> None:
    assert launch(*GRPC, command=python(f"raise SystemExit({status})")).returncode == status


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGINT", "SIGUSR1"])
def test_a_signal_that_kills_the_program_is_how_the_launcher_ends(launch: Launch, python: Python, name: str) -> None:
    number = getattr(signal, name)
    code = """
import os, signal, sys
number = int(sys.argv[1])
if number != signal.SIGKILL:
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
"""
    done = launch(*GRPC, command=python(code, number))
    assert done.returncode == -number
    assert "no gRPC call was counted" in done.stderr


def test_stdin_stdout_and_arguments_are_the_programs(start: Start, python: Python) -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    process = start(*GRPC, command=python(code, "--transport", "-h", "--"), stdin=subprocess.PIPE)
    assert process.communicate("said", timeout=20)[0] == "['--transport', '-h', '--'] said\n"


def test_the_launcher_imports_nothing_heavy(environ: dict[str, str], tmp_path: Path) -> None:
    launcher = [sys.executable, "-X", "importtime", "-m", "lucky_transport", "run", *GRPC, "--", "true"]
    done = subprocess.run(launcher, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "lucky_transport_stubs.run.launch" in imported
    assert imported & {"numpy", "grpc", "gymnasium", "flatbuffers", "google.protobuf"} == set()


def test_signals_reach_the_program_once(start: Start, python: Python) -> None:
    process = start(*GRPC, command=python(LISTENING))
    line(process)
    for name in "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM":
        process.send_signal(getattr(signal, name))
        assert line(process) == name
    assert process.wait(20) == 5
    assert process.stdout is not None
    assert process.stdout.read() == ""


def test_a_program_that_dies_of_a_forwarded_signal_takes_the_launcher_with_it(start: Start, python: Python) -> None:
    process = start(*GRPC, command=python("print(flush=True); import time; time.sleep(60)"))
    line(process)
    process.terminate()
    assert process.wait(20) == -signal.SIGTERM


def test_where_a_signal_ends_nothing_the_status_is_a_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of a container is immune to its own signals."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr(resource, "setrlimit", lambda *arguments: None)
    assert end_like(-signal.SIGKILL) == 128 + signal.SIGKILL
    assert sent == [(os.getpid(), signal.SIGKILL)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_ctrl_c_of_a_terminal_is_not_passed_on_a_second_time(
    environ: dict[str, str], python: Python, tmp_path: Path
) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        arguments = [sys.executable, "-m", "lucky_transport", "run", *GRPC, "--", *python(LISTENING)]
        os.execve(sys.executable, arguments, environ)
    try:
        text = os.read(terminal, 100)
        assert text.strip().isdigit()
        os.write(terminal, b"\x03")
        assert _read_until(terminal, b"SIGINT")
        os.kill(pid, signal.SIGUSR1)
        assert b"SIGINT" not in _read_until(terminal, b"SIGUSR1").partition(b"SIGINT")[2]
        os.kill(pid, signal.SIGTERM)
        _read_until(terminal, b"no gRPC call was counted")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    finally:
        os.close(terminal)  # whoever is still there gets a SIGHUP


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_terminal_that_closes_ends_the_program_and_then_the_launcher(
    environ: dict[str, str], python: Python, tmp_path: Path
) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        arguments = [
            sys.executable,
            "-m",
            "lucky_transport",
            "run",
            *GRPC,
            "--",
            *python("import signal; print(1, flush=True); signal.pause()"),
        ]
        os.execve(sys.executable, arguments, environ)
    assert _read_until(terminal, b"1")
    os.close(terminal)
    until(lambda: os.waitpid(pid, os.WNOHANG) != (0, 0))


def _read_until(terminal: int, awaited: bytes) -> bytes:
    text = b""
    end = time.monotonic() + 20
    while awaited not in text:
        assert time.monotonic() < end, text
        text += os.read(terminal, 1000)
    return text


def test_a_second_ctrl_c_does_not_cost_the_report(start: Start, python: Python) -> None:
    code = """
import os, signal
os.kill(os.getppid(), signal.SIGINT)
os.kill(os.getppid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGINT)
"""
    process = start(*GRPC, command=python(code))
    _, err = process.communicate(timeout=20)
    assert "no gRPC call was counted" in err
    assert process.returncode == -signal.SIGINT


def test_whoever_kills_the_launcher_kills_the_program(start: Start, python: Python, environ: dict[str, str]) -> None:
    process = start(*GRPC, command=python("import os, time; print(os.getpid(), flush=True); time.sleep(60)"))
    pid = int(line(process))
    process.kill()
    process.wait(10)
    assert gone(pid)
    assert len(remove_left_over(Path(environ["TMPDIR"]))) == 1  # as `doctor --fix` does


def test_with_quiet_the_program_takes_the_launchers_place(start: Start, python: Python) -> None:
    process = start(*GRPC, "--quiet", command=python("import os; print(os.getpid())"))
    assert int(line(process)) == process.pid
    assert process.wait(20) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("program", "hint"),
    [("nothing_there", "no program 'nothing_there'"), ("train.py", "did you mean `python train.py`?")],
)
def test_a_program_that_is_not_there_is_a_127_with_a_hint(
    launch: Launch, tmp_path: Path, program: str, hint: str
) -> None:
    (tmp_path / "train.py").touch()
    done = launch(*GRPC, command=[program])
    assert done.returncode == 127
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_the_system_refuses_is_said(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "strange").write_bytes(b"\0\1\2")
    (tmp_path / "strange").chmod(0o700)
    done = launch(*GRPC, command=["./strange"])
    assert done.returncode == 126
    assert "strange" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_report_is_json(launch: Launch, python: Python, tmp_path: Path) -> None:
    done = launch(*GRPC, "--report", "calls.json", "--quiet", command=python("raise SystemExit(3)"))
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads((tmp_path / "calls.json").read_text()) == {
        "transport": "grpc",
        "status": 3,
        "calls": [],
        "processes": [],
        "without_lucky_transport": [],
        "escapes": [],
        "reached": [],
        "other_packages": [],
    }


def test_a_report_that_cannot_be_written_is_said_before_the_program_runs(launch: Launch, python: Python) -> None:
    done = launch(*GRPC, "--report", "nowhere/calls.json", command=python("print('ran')"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere/calls.json" in done.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--transport", "shm"), "nothing says where the engine is"),
        (("--endpoint", "grpc://127.0.0.1:1"), "not an endpoint shm://NAME"),
        (("--map", "localhost"), "is no pair"),
    ],
)
def test_a_mistake_in_the_map_is_said_before_the_program_runs(
    launch: Launch, python: Python, options: tuple[str, ...], reason: str
) -> None:
    done = launch(*options, command=python("print('ran')"))
    assert (done.returncode, done.stdout) == (1, "")
    assert reason in done.stderr


def test_settings_of_the_environment_and_of_files_count(launch: Launch, python: Python, tmp_path: Path) -> None:
    show = python(
        "import os; print(*(os.environ.get(f'LUCKY_{n}', '') for n in ('TRANSPORT', 'ENDPOINT', 'GRPC_MAP')))"
    )
    assert launch(command=show, LUCKY_ENDPOINT="shm://a").stdout == "auto shm://a \n"
    assert launch("--endpoint", "shm://b", command=show, LUCKY_ENDPOINT="shm://a").stdout == "auto shm://b \n"
    (tmp_path / "lucky_transport.toml").write_text("transport = 'shm'\ngrpc_map = '*=shm://c'\n")
    assert launch(command=show).stdout == "shm  *=shm://c\n"
    assert launch("--map", "a:1=shm://d", "--map", "*=shm://e", command=show).stdout == "shm  a:1=shm://d *=shm://e\n"


def test_an_outer_launcher_gives_way_to_an_inner_one(launch: Launch, python: Python) -> None:
    show = "import os; print(os.environ['LUCKY_TRANSPORT'], os.environ['PYTHONPATH'].count('bootstrap'))"
    inner = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", "--", *python(show)]
    done = launch("--endpoint", "shm://x", command=inner)
    assert done.stdout == "grpc 1\n"
    assert done.stderr.count("no gRPC call was counted") == 2


def test_the_environment_can_be_printed_for_a_shell(environ: dict[str, str], tmp_path: Path, python: Python) -> None:
    command = [sys.executable, "-m", "lucky_transport", "run", "--map", "*=shm://x", "--print-environment"]
    printed = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    look = shlex.join(python("import os, sitecustomize; print(os.environ['LUCKY_GRPC_MAP'], sitecustomize.__file__)"))
    shown = subprocess.run(["sh", "-c", f"{printed.stdout}{look}"], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("*=shm://x ")
    assert shown.stdout.endswith("bootstrap/sitecustomize.py\n")
