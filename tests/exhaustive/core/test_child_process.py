"""A child process: what it prints, what it imports, and an env in it that raises or ends it, over every transport."""

import errno
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.errors import EngineFailed, NotReachable, PeerDied
from lucky_transport.process import ChildProcess, EngineProcess
from tests.support.command import python, stdout_of
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, until

ENVS = """
import ctypes, os, subprocess, sys
import gymnasium, numpy as np

print('ready shm://somewhere_else', flush=True)
print('{"endpoints": ["shm://somewhere_else"], "build": []}', flush=True)
print('failed {"code": 16, "text": "a joke", "hint": ""}', flush=True)

class Talkative(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, closes=(), leaves=""):
        print("ready player one")
        self.closes = closes
        for fd in closes:
            os.close(fd)
        if leaves == "fork":
            if os.fork() == 0:
                import signal
                print("left", os.getpid(), flush=True)
                signal.pause()
            os._exit(3)
        if leaves == "no report":
            os.close(int(sys.argv[sys.argv.index("--status-fd") + 1]))
        elif leaves:
            self.left = subprocess.Popen(["sleep", "600"])
            print("left", self.left.pid)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if not self.closes:
            print("x" * (1 << 20))
            print("y" * (1 << 20), file=sys.stderr, flush=True)
            for fd in (1, 2):
                text = b"z" * (1 << 20)
                while text:
                    text = text[os.write(fd, text):]
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if not self.closes:
            ctypes.CDLL(None).puts(b"from C " + b"w" * 1000)
        return np.ones(1, np.float32), 1.0, False, False, {}

    def close(self):
        print("good bye")

gymnasium.register("Talkative-v0", Talkative, disable_env_checker=True)
"""
ENGINE = "gymnasium:talkative_envs:Talkative-v0"


@pytest.fixture
def envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `sys.path` with a module of envs."""
    folder = tmp_path / "envs"
    folder.mkdir()
    (folder / "talkative_envs.py").write_text(ENVS)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def printed(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "lucky_transport.output"):
        yield caplog


@pytest.mark.usefixtures("envs")
@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_an_env_prints_whatever_and_as_much_as_it_likes(transport: str, printed: pytest.LogCaptureFixture) -> None:
    pytest.importorskip(f"lucky_transport_{transport}.server")
    with api.make(ENGINE, 2, transport=transport) as env:
        env.reset(seed=0)
        for _ in range(300):
            assert np.all(env.step(np.zeros(2, np.int64))[0] == 1)
    assert f"{ENGINE}: ready player one" in printed.messages
    assert f"{ENGINE}: good bye" in printed.messages
    assert sum(message.count("from C") for message in printed.messages) == 600


@pytest.mark.usefixtures("envs")
@pytest.mark.parametrize("closes", [[0], [1], [2], [0, 1, 2]])
def test_an_env_may_close_the_standard_streams(closes: list[int]) -> None:
    with api.make(ENGINE, options={"closes": closes}, transport="auto") as env:
        env.reset(seed=0)
        assert np.all(env.step(np.zeros(1, np.int64))[0] == 1)


def test_a_program_without_standard_streams_starts_engines() -> None:
    program = """
import os
from lucky_transport.process import EngineProcess
kept = os.dup(2)
for fd in (0, 1, 2):
    os.close(fd)
EngineProcess("toy", ["inproc:"], start_timeout_s=60).stop()
os.write(kept, b"started")
"""
    assert python("-c", program, check=True).stderr == "started"


@pytest.mark.usefixtures("envs")
def test_a_process_that_an_env_leaves_behind_keeps_no_close_waiting(printed: pytest.LogCaptureFixture) -> None:
    env = api.make(ENGINE, options={"leaves": "sleep"}, transport="auto")
    env.close()
    left = next(message.split()[-1] for message in printed.messages if "left" in message)
    os.kill(int(left), signal.SIGKILL)  # it was there until now


@pytest.mark.usefixtures("envs")
def test_the_end_of_an_engine_is_seen_though_a_child_of_it_holds_its_descriptors() -> None:
    with pytest.raises(NotReachable, match="ended before it was ready: exit status 3") as failed:
        api.make(ENGINE, options={"leaves": "fork"}, transport="auto", start_timeout_s=PATIENCE_S)
    os.kill(int(str(failed.value).rpartition("left ")[2].split()[0]), signal.SIGKILL)


@pytest.mark.usefixtures("envs")
def test_an_engine_that_closes_what_it_reports_to_is_given_up_at_once() -> None:
    with pytest.raises(NotReachable, match="closed a descriptor that is not its own"):
        api.make(ENGINE, options={"leaves": "no report"}, transport="auto", start_timeout_s=PATIENCE_S)


def test_the_last_lines_of_both_streams_are_in_the_exit_report() -> None:
    code = "import os, sys; print('a' * 9000); print('first', flush=True); os.write(2, b'second\\n\\xff'); sys.exit(7)"
    process = ChildProcess("talker", [sys.executable, "-c", code])
    assert process.exit_report(PATIENCE_S).endswith("a\n  first\n  second\n  �")
    assert process.exit_report().startswith("exit status 7\n")
    assert process.stop() == 7


@pytest.mark.usefixtures("printed")
def test_a_log_handler_that_raises_keeps_no_process_waiting() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the disk is full")

    handler = Broken()
    logging.getLogger("lucky_transport.output").addHandler(handler)
    try:
        process = ChildProcess("talker", [sys.executable, "-c", "print('x\\n' * 50_000)"])
        assert process.exit_report(PATIENCE_S).startswith("exit status 0\n")
        process.stop()
    finally:
        logging.getLogger("lucky_transport.output").removeHandler(handler)


def test_an_output_is_read_by_one_thread_that_ends_with_the_process() -> None:
    process = ChildProcess("quiet", ["sleep", "600"])
    (reader,) = threads_of("output of quiet")
    process.stop()
    until(lambda: not reader.is_alive())


# --- what it imports ---


@pytest.mark.usefixtures("envs")
def test_an_engine_imports_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy", "lucky_transport", "runpy", "gymnasium"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with api.make(ENGINE, transport="auto") as env:
        env.reset(seed=0)


PROGRAM = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
sys.path.append(None)  # no place to import from, and no fault either
from lucky_transport.process import python_command
print(subprocess.run(python_command("probe", "one", ""), capture_output=True, text=True, check=True).stdout)
print(json.dumps([sys.path[:-1], sys.warnoptions, sys._xoptions, list(sys.flags)]))
"""
PROBE = """
import json, sys
assert __name__ == "__main__" and sys.argv[1:] == ["one", ""], (__name__, sys.argv)
print(json.dumps([sys.path, sys.warnoptions, sys._xoptions, list(sys.flags)]))
"""


@pytest.mark.parametrize("flags", [[], ["-P"], ["-I"], ["-s", "-W", "error::UserWarning", "-X", "dev"]])
@pytest.mark.parametrize("how", ["script", "-c", "zipapp", "-m"])
def test_a_child_has_the_path_and_the_flags_of_its_parent(how: str, flags: list[str], tmp_path: Path) -> None:
    modules, folder = tmp_path / "a 'quoted\" place", tmp_path / "programs"
    modules.mkdir()
    folder.mkdir()
    (modules / "probe.py").write_text(PROBE)
    (folder / "__main__.py").write_text(PROGRAM)
    shutil.make_archive(str(tmp_path / "app"), "zip", folder)
    place = {"script": ["programs/__main__.py"], "-c": ["-c", PROGRAM], "zipapp": ["app.zip"], "-m": ["-m", "programs"]}
    if how == "-m" and flags in (["-P"], ["-I"]):
        pytest.skip("these flags keep the working directory off the path, from which -m would run it")
    printed = stdout_of(python(*flags, *place[how], modules, cwd=tmp_path))
    child, parent = map(json.loads, filter(None, printed.splitlines()))
    assert child == parent


@pytest.fixture
def other_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package without its native modules, first on `sys.path` since this one was imported."""
    source = Path(lucky_transport.__file__).parent
    copy = tmp_path / "checkout"
    shutil.copytree(source, copy / "lucky_transport", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    monkeypatch.syspath_prepend(copy)
    return copy


def test_an_engine_of_another_build_is_said_once(other_build: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        EngineProcess("toy", ["inproc:"]).stop()
    (warning,) = [message for message in caplog.messages if "runs lucky_transport" in message]
    assert f"of {other_build / 'lucky_transport'}, " in warning
    assert f"of {Path(lucky_transport.__file__).parent}; " in warning


def test_an_engine_of_another_version_is_refused(other_build: Path) -> None:
    folder = other_build / "lucky_transport-9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: lucky-transport\nVersion: 9.9\n")
    with pytest.raises(NotReachable, match=r"runs lucky_transport 9\.9 of .*, this one runs .*; keep one of them"):
        EngineProcess("toy", ["inproc:"])


def test_an_engine_that_a_limit_keeps_from_starting_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pipe", Mock(side_effect=OSError(errno.EMFILE, "too many")))
    with pytest.raises(NotReachable, match=r"cannot be started: too many open files, the limit is \d+; .*ulimit -n"):
        EngineProcess("toy", ["inproc:"])


# --- an env that raises, or ends its process ---


in_fork = pytest.mark.usefixtures("forked_engines", "failing_envs")
each_transport = pytest.mark.parametrize("transport", ["inproc", "shm", "grpc"])

FAILING_ENVS = """
import os, sys
import gymnasium, numpy as np

class Stopped(BaseException): pass

def fail(how):
    match how:
        case "exit": sys.exit(4)
        case "interrupt": raise KeyboardInterrupt
        case "generator": raise GeneratorExit
        case "stopped": raise Stopped("enough")
        case "leave": os._exit(7)

class Failing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(9)
    def __init__(self, init=""):
        fail(init)
    def reset(self, *, seed=None, options=None):
        fail((options or {}).get("how"))
        return np.zeros(1, np.float32), {}
    def step(self, action):
        fail(["", "exit", "interrupt", "generator", "stopped", "leave"][action])
        return np.ones(1, np.float32), 1.0, False, False, {}

gymnasium.register("Failing-v0", Failing, disable_env_checker=True)
"""


FAILING = "gymnasium:failing_envs:Failing-v0"


HOW = {"exit": "SystemExit: 4", "interrupt": "KeyboardInterrupt", "generator": "GeneratorExit", "stopped": "enough"}


@pytest.fixture
def failing_envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_envs.py").write_text(FAILING_ENVS)
    (tmp_path / "without_guard.py").write_text("import sys; sys.exit('no guard')")
    monkeypatch.syspath_prepend(tmp_path)


@in_fork
@each_transport
def test_an_env_that_wants_to_end_its_process_fails_and_can_be_reset(transport: str) -> None:
    with api.make(FAILING, transport=transport) as env:
        for action, (how, text) in enumerate(HOW.items(), 1):
            with pytest.raises(EngineFailed, match=text):
                env.reset(options={"how": how})
            env.reset()
            with pytest.raises(EngineFailed, match=text):
                env.step(np.array([action]))
            env.reset()
        assert env.step(np.array([0]))[1] == 1


@in_fork
@each_transport
@pytest.mark.parametrize("how", HOW)
def test_an_env_that_wants_to_end_its_process_when_it_is_made_cannot_be_made(transport: str, how: str) -> None:
    with pytest.raises(EngineFailed, match=HOW[how]):
        api.make(FAILING, transport=transport, options={"init": how})


@in_fork
@each_transport
def test_a_module_that_wants_to_end_the_process_cannot_be_imported(transport: str) -> None:
    with pytest.raises(EngineFailed, match="SystemExit: no guard"):
        api.make("gymnasium:without_guard:Any-v0", transport=transport)


@in_fork
@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_an_env_that_ends_its_process_is_a_death(transport: str) -> None:
    with api.make(FAILING, transport=transport) as env:
        env.reset()
        with pytest.raises(PeerDied, match="exit status 7"):
            env.step(np.array([5]))
