"""The launcher as a process: exit status, signals and streams are the program's own."""

import json
import os
import pty
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("grpc")

from lucky_transport_stubs.run.launch import end_like
from tests.plugins.stubs.run.conftest import Launch, Python, Start
from tests.support.waiting import PATIENCE_S, until, until_none_left

GRPC = ("--transport", "grpc")

#: Ends with the signal of this number.
KILLED = """
import os, signal, sys
number = int(sys.argv[1])
if number != signal.SIGKILL:
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
"""
#: Calls this target, and ends with this status.
CALL = """
import sys, grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    assert channel.unary_unary("/t.T/Echo")(b"x", timeout=30) == b"x"
sys.exit(int(sys.argv[2]))
"""
CHILD = [sys.executable, "-m", "lucky_transport", "run", *GRPC, "--report", "-", "--"]
SHOW = "import os; print(os.environ['LUCKY_TRANSPORT'], os.environ['PYTHONPATH'].count('bootstrap'))"
WEATHER = ("--transport", "shm", "--endpoint", "shm://weather")
UNSEEN = {"LUCKY_RUN_REPORT": ""}
#: Makes a channel that stays on gRPC, in a child too.
TWICE = """
import subprocess, sys, grpc
channel = grpc.insecure_channel("localhost:50051")
print("out", flush=True)
sys.argv[1:] and subprocess.run(sys.orig_argv[:-1], check=True)
"""
NOBODY = ("--endpoint", "shm://nobody_serves_this")


class Row(NamedTuple):
    """What a launch comes to. program: its command, or code of Python and arguments; {port} is that of a gRPC server.

    words: what stderr has; None where it is empty.
    """

    options: tuple[str, ...]
    program: list[str] | tuple[str, ...]
    status: int = 0
    out: str = ""
    words: str | None = ""
    variables: Mapping[str, str] = {}


LAUNCHES = {
    **{f"exits with {status}": Row(GRPC, (f"raise SystemExit({status})",), status) for status in (0, 7, 78, 255)},
    **{
        f"dies of {number.name}": Row(GRPC, (KILLED, str(int(number))), -number, words="no gRPC call was counted")
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT, signal.SIGUSR1)
    },
    "is not there": Row(GRPC, ["nothing_there"], 127, words="no program 'nothing_there'"),
    "is no program": Row(GRPC, ["./strange"], 126, words="strange"),
    "is a file": Row(GRPC, ["train.py"], 127, words="did you mean `python train.py`?"),
    "is a file by its path": Row(GRPC, ["./train.py"], 126, words="did you mean `python ./train.py`?"),
    "has no place for a report": Row((*GRPC, "--report", "nowhere/calls.json"), ("1",), 2, words="nowhere/calls.json"),
    "names no engine": Row(("--transport", "shm"), ("1",), 1, words="nothing says where the engine is"),
    "names a grpc endpoint": Row(("--endpoint", "grpc://127.0.0.1:1"), ("1",), 1, words="not an endpoint shm://NAME"),
    "has a map of no pairs": Row(("--map", "localhost"), ("1",), 1, words="is no pair"),
    "serves at no pair": Row(("--transport", "shm", "--serve", "1"), ("1",), 1, words="target map: '1' is no pair"),
    "cannot be switched": Row(
        WEATHER,
        ("import os; os.environ['LUCKY_TRANSPORT'] = 'pigeon'; import grpc",),
        78,
        words="cannot be switched",
        variables=UNSEEN,
    ),
    "has an inner launcher": Row(
        ("--endpoint", "shm://x"),
        [*CHILD, sys.executable, "-c", SHOW],
        out="grpc 1\n",
        words="no gRPC call was counted",
    ),
    **{
        f"says nothing unasked{more}": Row((*NOBODY, *more), (TWICE, "child"), 0, "out\nout\n", None, UNSEEN)
        for more in ((), ("--quiet",), ("--check",), ("--report", "calls.json"))
    },
    "says what it is asked for": Row(
        (*NOBODY, "--report", "-"), (TWICE, "child"), 0, "out\nout\n", "no gRPC call was counted; 2 processes", UNSEEN
    ),
    "says why it stays on gRPC": Row(NOBODY, (TWICE,), 0, "out\n", "no server or engine at shm://nobody_serves_this"),
    "is quiet": Row((*GRPC, "--quiet"), (CALL, "localhost:{port}", "0"), words=None),
    "counts and fails": Row(GRPC, (CALL, "localhost:{port}", "7"), 7, words="over gRPC: the transport is grpc"),
    "counts and exits at once": Row(
        GRPC, (CALL.replace("sys.exit(", "import os; os._exit("), "localhost:{port}", "3"), 3, words="1  /t.T/Echo"
    ),
    "stays on gRPC": Row(WEATHER, (CALL, "localhost:{port}", "0"), words="localhost:{port}"),
    "requires": Row(
        (*WEATHER, "--require"),
        (CALL, "localhost:{port}", "0"),
        125,
        "",
        "--map localhost:{port}=shm://weather",
        UNSEEN,
    ),
    "requires and is quiet": Row(
        (*WEATHER, "--require", "--quiet"), (CALL, "localhost:{port}", "0"), 125, "", "nothing was switched", UNSEEN
    ),
    "requires and fails": Row((*WEATHER, "--require"), (CALL, "localhost:{port}", "7"), 7),
    "requires and calls nothing": Row((*WEATHER, "--require"), ("",), 125, words="and no port was bound"),
    "requires what is not switched": Row((*GRPC, "--require"), ("",), 2, words="--transport grpc switches nothing"),
}


@pytest.mark.parametrize("row", LAUNCHES.values(), ids=LAUNCHES.keys())
def test_a_launch_comes_to(launch: Launch, python: Python, grpc_port: int, tmp_path: Path, row: Row) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "strange").write_bytes(b"\0\1\2")
    (tmp_path / "strange").chmod(0o700)
    command = row.program if isinstance(row.program, list) else python(*row.program)
    done = launch(*row.options, command=[part.replace("{port}", str(grpc_port)) for part in command], **row.variables)
    assert (done.returncode, done.stdout) == (row.status, row.out), done.stderr
    assert done.stderr == "" if row.words is None else row.words.replace("{port}", str(grpc_port)) in done.stderr
    assert "Traceback" not in done.stderr


def test_stdin_stdout_and_arguments_are_the_programs(start: Start, python: Python) -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    process = start(*GRPC, command=python(code, "--transport", "-h", "--"), stdin=subprocess.PIPE)
    assert process.communicate("said", timeout=20)[0] == "['--transport', '-h', '--'] said\n"


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_the_program_inherits_descriptors(environ: dict[str, str], options: tuple[str, ...]) -> None:
    source, sink = os.pipe()
    with open(source) as output:
        with open(sink, "w"):
            program = [sys.executable, "-c", f"import os; os.write({sink}, b'passed on')"]
            command = [sys.executable, "-m", "lucky_transport", "run", *GRPC, *options, "--", *program]
            subprocess.run(command, env=environ, pass_fds=[sink], check=True, timeout=PATIENCE_S)
        assert output.read() == "passed on"


def test_the_launcher_imports_nothing_heavy(execute: Launch) -> None:
    launcher = [sys.executable, "-X", "importtime", "-m", "lucky_transport", "run", *GRPC, "--", "true"]
    done = execute(launcher)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "lucky_transport_stubs.run.launch" in imported
    assert imported & {"numpy", "grpc", "gymnasium", "flatbuffers", "google.protobuf"} == set()


def test_with_quiet_the_program_takes_the_launchers_place(start: Start, python: Python) -> None:
    process = start(*GRPC, "--quiet", command=python("import os; print(os.getpid())"))
    assert process.communicate(timeout=PATIENCE_S) == (f"{process.pid}\n", "")
    assert process.returncode == 0


def test_the_report_is_json(launch: Launch, python: Python, tmp_path: Path) -> None:
    (tmp_path / "calls.json").write_text("of before")
    program = "assert open('calls.json').read() == 'of before'; raise SystemExit(3)"
    done = launch(*GRPC, "--report", "calls.json", "--quiet", command=python(program))
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


def test_settings_of_the_environment_and_of_files_count(launch: Launch, python: Python, tmp_path: Path) -> None:
    show = python(
        "import os; print(*(os.environ.get(f'LUCKY_{n}', '') for n in ('TRANSPORT', 'ENDPOINT', 'GRPC_MAP')))"
    )
    assert launch(command=show, LUCKY_ENDPOINT="shm://a").stdout == "auto shm://a \n"
    assert launch("--endpoint", "shm://b", command=show, LUCKY_ENDPOINT="shm://a").stdout == "auto shm://b \n"
    (tmp_path / "lucky_transport.toml").write_text("transport = 'shm'\ngrpc_map = '*=shm://c'\n")
    assert launch(command=show).stdout == "shm  *=shm://c\n"
    assert launch("--map", "a:1=shm://d", "--map", "*=shm://e", command=show).stdout == "shm  a:1=shm://d *=shm://e\n"


def test_where_stderr_takes_nothing_the_exit_status_is_still_the_programs(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "lucky_transport", "run", *NOBODY, "--report", "-", "--", "sh", "-c", "exit 3"]
    with open("/dev/full", "w") as full:
        assert subprocess.run(command, env=environ, stderr=full, check=False).returncode == 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_terminal_gets_the_notices(environ: dict[str, str], python: Python) -> None:
    pid, terminal = pty.fork()
    if not pid:
        command = [sys.executable, "-m", "lucky_transport", "run", *NOBODY, "--", *python(TWICE, "child")]
        os.execve(sys.executable, command, environ | UNSEEN)
    text = b""
    with suppress(OSError):  # how a terminal ends
        while part := os.read(terminal, 1000):
            text += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert text.count(b"stays on gRPC: no server or engine at") == 2
    assert b"no gRPC call was counted; 2 processes" in text


def test_the_lines_to_paste_ask_as_the_launcher_was_asked(launch: Launch) -> None:
    for asked, line in (((), ""), (("--report", "-"), "export LUCKY_RUN_REPORT=-\n")):
        printed = launch(*NOBODY, *asked, "--print-environment", command=["true"], **UNSEEN).stdout
        assert ("LUCKY_RUN_REPORT" in printed, line in printed) == (bool(asked), True)


def test_the_environment_can_be_printed_for_a_shell(execute: Launch, python: Python) -> None:
    printed = execute([sys.executable, "-m", "lucky_transport", "run", "--map", "*=shm://x", "--print-environment"])
    look = shlex.join(python("import os, sitecustomize; print(os.environ['LUCKY_GRPC_MAP'], sitecustomize.__file__)"))
    shown = subprocess.run(["sh", "-c", f"{printed.stdout}{look}"], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("*=shm://x ")
    assert shown.stdout.endswith("bootstrap/sitecustomize.py\n")


# --- signals: each reaches the program once, whoever sends it to whom ---


PROGRAM = """
import os, signal, sys
if {apart}:
    os.setpgid(0, 0)
told = []
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)  # a signal that comes before the read is in the pipe; signal.pause() would miss it
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2):
    signal.signal(number, lambda number, _: told.append(1) or print(signal.Signals(number).name[3:], flush=True))
signal.signal(signal.SIGUSR1, lambda *_: (print("count", len(told), flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    os.read(woken, 1)
"""

#: Makes the terminal on stdin that of this session, and becomes the command.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def begin(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start the launcher in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def begin(
        *options: str, apart: bool = False, code: str = PROGRAM, terminal: int | None = None
    ) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", code.format(apart=apart)]
        command = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", *options, "--", *program]
        if terminal is not None:
            command = [sys.executable, "-c", TAKE_TERMINAL, *command]  # a session's leader opens it, and it is its own
        pipes: dict[str, Any] = {"stdin": terminal, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        launcher = subprocess.Popen(command, env=environ, cwd=tmp_path, start_new_session=True, **pipes)
        started.append(launcher)
        assert _line(launcher) == "ready"
        return launcher

    yield begin
    for launcher in started:
        launcher.kill()
        launcher.communicate(timeout=PATIENCE_S)


def _wait_until_taken(launcher: subprocess.Popen[str], number: signal.Signals) -> None:
    """Return when the launcher has no such signal pending; its main thread takes all of them."""

    def pending() -> list[str]:
        status = Path(f"/proc/{launcher.pid}/status").read_text(encoding="ascii")
        masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
        return [mask for mask in masks if int(mask, 16) >> (number - 1) & 1]

    until_none_left(pending)


def _line(launcher: subprocess.Popen[str]) -> str:
    assert launcher.stdout is not None
    return launcher.stdout.readline().strip()


def _end(launcher: subprocess.Popen[str], told: int) -> None:
    """End a program that was told so many signals."""
    os.kill(launcher.pid, signal.SIGUSR1)
    assert _line(launcher) == f"count {told}"
    assert launcher.wait(PATIENCE_S) in (0, int("--check" in launcher.args)), "1 where --check found something"  # type: ignore[operator]


@pytest.mark.parametrize("options", [(), ("--check",)], ids=["plain", "watching"])
def test_a_signal_to_the_group_reaches_the_program_once(begin: Start, options: tuple[str, ...]) -> None:
    launcher = begin(*options)
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    _wait_until_taken(launcher, signal.SIGTERM)  # the kernel makes one of two that wait
    os.kill(launcher.pid, signal.SIGTERM)  # passed on: when it has come, so had a second one of the first
    assert _line(launcher) == "TERM"
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    _end(launcher, 3)


def test_a_signal_to_the_group_reaches_a_program_that_left_it(begin: Start) -> None:
    launcher = begin(apart=True)
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    _end(launcher, 1)


def test_several_signals_to_the_group_reach_the_program_once_each(begin: Start) -> None:
    launcher = begin()
    os.kill(launcher.pid, signal.SIGSTOP)  # so that both wait for it
    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        os.killpg(launcher.pid, number)
    assert {_line(launcher) for _ in numbers} == {"TERM", "HUP"}
    os.kill(launcher.pid, signal.SIGCONT)
    for number in numbers:
        _wait_until_taken(launcher, number)
    for number in numbers:
        os.kill(launcher.pid, number)
        assert _line(launcher) == number.name[3:]
    _end(launcher, 4)


@pytest.fixture
def at_terminal(begin: Start) -> Callable[..., tuple[subprocess.Popen[str], int]]:
    """Start the launcher as the leader of a session at a terminal; returns it, and our end of the terminal."""

    def started(*options: str) -> tuple[subprocess.Popen[str], int]:
        ours, theirs = pty.openpty()
        launcher = begin(*options, terminal=theirs)
        os.close(theirs)
        return launcher, ours

    return started


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["beneath the launcher", "in its place"])
def test_ctrl_c_at_a_terminal_reaches_the_program_once(at_terminal: Any, options: tuple[str, ...]) -> None:
    launcher, ours = at_terminal(*options)
    for count in (1, 2):
        os.write(ours, b"\x03")
        assert _line(launcher) == "INT"
        _wait_until_taken(launcher, signal.SIGINT)
        os.kill(launcher.pid, signal.SIGINT)  # another one, for the launcher alone
        assert _line(launcher) == "INT", f"after Ctrl-C {count}"
    _end(launcher, 4)
    os.close(ours)


def test_a_terminal_that_closes_hangs_up_the_program_too(at_terminal: Any) -> None:
    """The kernel tells the session's leader alone, which the launcher is under tmux, screen or ssh -t."""
    launcher, ours = at_terminal()
    os.close(ours)
    assert _line(launcher) == "HUP"
    _end(launcher, 1)


def test_signals_to_the_launcher_reach_the_program_once(begin: Start) -> None:
    launcher = begin()
    names = ("HUP", "INT", "QUIT", "USR2", "INT", "TERM")
    for name in names:
        launcher.send_signal(getattr(signal, f"SIG{name}"))
        assert _line(launcher) == name
    _end(launcher, len(names))


SLEEPS = "import os, time; print('ready', os.getpid(), sep=chr(10), flush=True); time.sleep(300)"


def test_a_program_that_dies_of_a_forwarded_signal_takes_the_launcher_with_it(begin: Start) -> None:
    launcher = begin(code=SLEEPS)
    launcher.terminate()
    assert launcher.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_second_ctrl_c_does_not_cost_the_report(begin: Start) -> None:
    code = "print('ready', flush=True); import os, signal\n"
    code += "os.kill(os.getppid(), signal.SIGINT)\n" * 2 + "os.kill(os.getpid(), signal.SIGINT)"
    launcher = begin(code=code)
    _, said = launcher.communicate(timeout=PATIENCE_S)
    assert "no gRPC call was counted" in said
    assert launcher.returncode == -signal.SIGINT


def test_whoever_kills_the_launcher_kills_the_program(begin: Start, environ: dict[str, str]) -> None:
    launcher = begin(code=SLEEPS)
    program = _line(launcher)
    launcher.kill()
    launcher.wait(PATIENCE_S)
    until(lambda: not _is_alive(program))
    [counts] = Path(environ["TMPDIR"]).iterdir()  # what was counted stays
    shutil.rmtree(counts)


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_where_a_signal_ends_nothing_the_status_is_a_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of a container is immune to its own signals."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr(resource, "setrlimit", lambda *arguments: None)
    assert end_like(-signal.SIGKILL) == 128 + signal.SIGKILL
    assert sent == [(os.getpid(), signal.SIGKILL)]
