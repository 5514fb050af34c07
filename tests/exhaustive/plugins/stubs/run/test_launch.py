"""The launcher as a process: exit status, signals and streams are the program's own."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("grpc")

from tests.plugins.stubs.run.conftest import Launch, Python, Start
from tests.support.waiting import PATIENCE_S

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


def test_the_launcher_imports_nothing_heavy(environ: dict[str, str], tmp_path: Path) -> None:
    launcher = [sys.executable, "-X", "importtime", "-m", "lucky_transport", "run", *GRPC, "--", "true"]
    done = subprocess.run(launcher, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
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


def test_the_environment_can_be_printed_for_a_shell(environ: dict[str, str], tmp_path: Path, python: Python) -> None:
    command = [sys.executable, "-m", "lucky_transport", "run", "--map", "*=shm://x", "--print-environment"]
    printed = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    look = shlex.join(python("import os, sitecustomize; print(os.environ['LUCKY_GRPC_MAP'], sitecustomize.__file__)"))
    shown = subprocess.run(["sh", "-c", f"{printed.stdout}{look}"], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("*=shm://x ")
    assert shown.stdout.endswith("bootstrap/sitecustomize.py\n")
