"""A program that is a fork is what it would be had it been started: what it finds, prints and ends with is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport import process
from lucky_transport.errors import ConfigError
from lucky_transport.process import EngineProcess
from tests.support.forked_programs import SERVED, Program, Programs, forked_engines
from tests.support.waiting import PATIENCE_S

#: What a program finds when it begins.
FINDS = """
import os, signal, sys, threading
print(sys.argv, os.getcwd(), sys.path[0], sys.flags, __name__, globals().get("__file__"))
print(sorted(name for name in os.environ), os.environ["OWN"], "LUCKY_WAIT" in os.environ)
print(sorted(os.listdir("/proc/self/fd"))[:-1], sys.stdin.read(), threading.active_count())
print({number: signal.getsignal(number) for number in sorted(signal.valid_signals())})
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), oct(os.umask(0)), os.getsid(0) == os.getpid(), os.getpgid(0))
"""

ENDS = {
    "at its end": "print('done')",
    "with a status": "raise SystemExit(3)",
    "with a word": "raise SystemExit('no such thing')",
    "with an error": "raise ValueError('wrong')",
    "by force": "import os; print('lost'); os._exit(4)",
    "by a signal": "import os; os.kill(os.getpid(), 9)",
    "by Ctrl-C": "import signal; signal.raise_signal(signal.SIGINT)",
    "with a handler at exit": "import atexit; atexit.register(print, 'after')",
    "with a thread": "import threading; threading.Timer(0.01, print, ['from a thread']).start()",
    "with much to say": "import sys; print('x' * 200_000); print('y' * 200_000, file=sys.stderr)",
}


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with Programs(*SERVED) as found:
        yield found


@pytest.fixture
def environ() -> dict[str, str]:
    return os.environ | {"OWN": "this test's"}


@pytest.mark.parametrize("kind", ["code", "module", "file"])
def test_it_finds_what_a_started_one_finds(
    programs: Programs, environ: dict[str, str], tmp_path: Path, kind: str
) -> None:
    (tmp_path / "finds.py").write_text(FINDS)
    command = {"code": ["-c", FINDS], "module": ["-m", "finds"], "file": [str(tmp_path / "finds.py")]}[kind]
    found = programs.run([*command, "--option", "word"], cwd=tmp_path, environ=environ, timeout=PATIENCE_S)
    command = [sys.executable, *command, "--option", "word"]
    nothing = subprocess.DEVNULL
    started = subprocess.run(
        command, cwd=tmp_path, env=environ, stdin=nothing, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.splitlines() == started.stdout.splitlines()


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_it_ends_as_a_started_one_ends(programs: Programs, environ: dict[str, str], tmp_path: Path, code: str) -> None:
    found = programs.run(["-c", code], cwd=tmp_path, environ=environ, timeout=PATIENCE_S)
    command = [sys.executable, "-c", code]
    started = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (started.returncode, started.stdout)
    assert found.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_it_can_be_asked_waited_for_and_signalled(programs: Programs) -> None:
    with programs.start(["-c", "print(input()); input()"]) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.01)
        program.stdin.write("a line\n")
        program.stdin.flush()
        assert program.stdout.readline() == "a line\n"
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE_S) == program.poll() == -signal.SIGTERM
        program.kill()  # changes nothing
        assert program.communicate() == ("", "")
        assert program.stdout.closed


def test_it_is_a_child_that_has_ended_before_it_is_taken_up(programs: Programs) -> None:
    with programs.start(["-c", "raise SystemExit(3)"]) as program:
        found = os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert (found.si_pid, found.si_status) == (program.pid, 3)
        assert program.poll() == 3


def test_no_orphan_but_a_program_is_taken_up(programs: Programs) -> None:
    code = "import os; print(os.getppid())\nif not os.fork(): os.setsid(); print(os.getpid(), flush=True); input()"
    with programs.start(["-c", code]) as program:
        assert program.stdout is not None
        assert program.wait(PATIENCE_S) == 0
        parent, orphan = program.stdout.readline(), int(program.stdout.readline())
        assert parent == f"{os.getpid()}\n"
        status = Path(f"/proc/{orphan}/status").read_text()
        assert f"PPid:\t{os.getpid()}\n" not in status
        assert program.stdin is not None
        program.stdin.close()


def test_it_has_the_descriptors_that_it_is_given_and_a_session_of_its_own(
    programs: Programs, environ: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    code = f"import os; os.write({writer}, str(os.getsid(0) == os.getpid()).encode())"
    with open(reader, "rb") as given:
        with (
            open(writer, "wb"),
            programs.popen(["-c", code], environ, pass_fds=[writer], start_new_session=True) as program,
        ):
            assert program.wait(PATIENCE_S) == 0
        assert given.read() == b"True"


def test_engines_are_forks_that_report_log_and_end_as_engines_do(programs: Programs) -> None:
    with forked_engines(programs):
        engine = EngineProcess("toy", ["inproc://here"])
        assert isinstance(engine._process, Program)  # pyright: ignore[reportPrivateUsage]
        assert [str(endpoint) for endpoint in engine.endpoints] == ["inproc://here"]
        assert os.getsid(engine.pid) == engine.pid
        assert engine.stop() == 0
        assert not engine.is_alive
        with pytest.raises(ConfigError, match="colour"):
            EngineProcess("toy", ["inproc://here"], options={"colour": 1})
        engine = EngineProcess("toy", ["inproc://here"])
        engine.kill()
        assert engine.exit_report(PATIENCE_S) == "signal SIGKILL"
    assert process.subprocess is subprocess


@pytest.mark.exhaustive
def test_an_engine_whose_python_begins_otherwise_is_started(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with forked_engines(programs):
        engine = EngineProcess("toy", ["inproc://here"])
        engine.stop()
    assert isinstance(engine._process, subprocess.Popen)  # pyright: ignore[reportPrivateUsage]
