"""Where programs are started: without an extra or the native module, in a directory that is gone, with odd packages."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from tests.cli.conftest import MakeSegment, Run
from tests.cli.test_main import asked
from tests.support.command import python, stdout_of

#: Packages that the extras bring, by the names they are imported by.
HIDDEN = """
google grpc grpc_health grpc_reflection hdrh jinja2 libcst matplotlib mujoco opentelemetry packaging posix_ipc
prometheus_client rich scipy textual tomlkit
"""


#: Makes Python what it is after `pip install lucky-transport`: what the extras bring is not there.
WITHOUT_EXTRAS = f"""
import sys
from importlib import metadata
from importlib.abc import MetaPathFinder

class Hides(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN.split()}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def of_what_is_left(name):
    if name in gone:
        raise metadata.PackageNotFoundError(name)
    return version(name)

sys.meta_path.insert(0, Hides())
from lucky_transport.diagnosis import packages
needed, version = packages.requirements(), metadata.version
gone = {{one.name for extra, ones in needed.items() if extra for one in ones}} - {{one.name for one in needed[""]}}
metadata.version = of_what_is_left
"""


COMMAND = f"""{WITHOUT_EXTRAS}
from lucky_transport.cli.main import main

main()
"""


LOOP = f"""{WITHOUT_EXTRAS}
import lucky_transport

with lucky_transport.make(**MADE) as env:
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(10):
        env.step(env.action_space.sample())
print("stepped")
"""


def run(program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python("-W", "ignore", "-c", program, *arguments, cwd=cwd)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("bench",), "bench"),
        (("demo",), "bench"),
        (("parity", "toy", "--between", "inproc,shm", "--suite", "step"), "bench"),
        (("scan", "."), "scan"),
        (("stage", "set", "SceneService/*", "shadow"), "scan"),
        (("gate",), "scan"),
        (("signoff",), "migration"),
        (("top",), "top"),
    ],
)
def test_a_command_whose_extra_is_missing_names_it(arguments: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import grpc\n")
    (tmp_path / "lucky_transport.toml").write_text("")
    ended = run(COMMAND, *arguments, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert f"[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("arguments", [("ls",), ("gate", "--help"), ("top", "--once"), ("--help",)], ids=" ".join)
def test_the_other_commands_need_no_extra(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(COMMAND, *arguments, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


def test_doctor_finds_an_installation_without_extras_healthy(tmp_path: Path) -> None:
    printed = stdout_of(run(COMMAND, "doctor", "--json", cwd=tmp_path))
    found = {row["name"]: row for row in json.loads(printed)["checks"]}
    assert found["plugins"]["verdict"] == "ok", found["plugins"]
    assert found["extras"]["verdict"] == "ok", "nobody asked for them"
    assert found["extras"]["seen"].startswith("installed: shm; not installed: grpc, ")
    assert "openra" in found["extras"]["seen"]


def loop(**made: object) -> str:
    """Return a program that steps the env which `make` gives for these arguments."""
    return LOOP.replace("MADE", repr(made))


def test_an_env_needs_no_extra(tmp_path: Path) -> None:
    ended = run(loop(engine="toy", num_envs=2, transport="shm", options={"obs_size": 3}), cwd=tmp_path)
    assert stdout_of(ended) == "stepped\n"


def test_a_run_is_recorded_and_replayed_without_any_extra(tmp_path: Path) -> None:
    fresh = f"shm://{unique_name()}"
    recording = loop(endpoint=f"recorded:?to={fresh}&file=run.jsonl")
    with lucky_transport.serve("toy", fresh, num_envs=2, seed=7):
        recorded = run(recording, cwd=tmp_path)
    assert stdout_of(recorded) == "stepped\n"
    with lucky_transport.serve("toy", fresh, num_envs=2, seed=7):
        assert "EQUAL" in stdout_of(run(COMMAND, "replay", "run.jsonl", fresh, cwd=tmp_path))


REMEDY = "the native module was not built; run the install command again"


_WITHOUT = """
import sys
sys.modules["lucky_transport._native"] = None
from lucky_transport.cli.main import main
main()
"""


@pytest.fixture
def hidden(environ: dict[str, str], tmp_path: Path) -> Run:
    """Run the command line in a process that cannot import the native module."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = python("-c", _WITHOUT, *arguments, env=environ | variables, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--help"], "serve"), (["ls", "transports"], "Transports"), (["ls", "commands"], "Commands"), ([], "plain,toy")],
    ids=["help", "transports", "commands", "completion"],
)
def test_what_needs_no_native_module_does_without(hidden: Run, arguments: list[str], said: str) -> None:
    done = hidden(*arguments, **({} if arguments else asked("lucky-transport serve to")))
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout.split()


def test_doctor_says_what_is_missing_and_what_to_do(hidden: Run) -> None:
    done = hidden("doctor")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["native", "module", "fail", "the", "native", "module", "was", "not", "built"] in rows
    assert ["native", "module", "fail", "run", "the", "install", "command", "again"] in rows


@pytest.mark.parametrize("command", ["ls", "inspect shm://{}", "serve toy --endpoint shm://{}_other"])
def test_no_segment_is_made_or_read_without_it(hidden: Run, make_segment: MakeSegment, command: str) -> None:
    done = hidden(*command.format(make_segment().name).split())
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {REMEDY}\n")


needs_grpc = pytest.mark.skipif(find_spec("grpc") is None, reason="grpcio is not installed")

_MAKES = "import lucky_transport; lucky_transport.make('toy', transport={!r}).close(); print('made')"
_RUN = ["-m", "lucky_transport", "run", "--transport", "shm", "--map", "*=shm://nobody", "--quiet", "--"]
_CALLS = """
import grpc, lucky_transport_stubs as stubs
from concurrent.futures import ThreadPoolExecutor
handler = grpc.method_handlers_generic_handler("a.B", {"C": grpc.unary_unary_rpc_method_handler(lambda r, c: r)})
options = [("grpc.primary_user_agent", "x"), (b"grpc.max_send_message_length", -1)]
server = stubs.server(ThreadPoolExecutor(2), (handler,), options=options)
server.add_insecure_port("shm://PLACE")
server.start()
with stubs.channel("shm://PLACE", options=options) as channel:
    print(channel.unary_unary("/a.B/C")(b"made").decode())
server.stop(None).wait()
"""


def _python(*arguments: str, folder: Path, code: int = 0, **variables: str) -> str:
    done = python(*arguments, cwd=folder, env=os.environ | variables)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Error in sitecustomize" not in done.stderr
    return done.stdout


@pytest.fixture
def gone(tmp_path: Path) -> Callable[..., str]:
    """Runs Python in a working directory that is removed first."""

    def run(*arguments: str, code: int = 0) -> str:
        folder = tmp_path / "gone"
        folder.mkdir()
        leave = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        return _python("-c", leave, *arguments, folder=folder, code=code)

    return run


@needs_grpc
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*_RUN, sys.executable, "-c", "import grpc; print(grpc.insecure_channel)"), "function"),
        (("-c", _MAKES.format("shm")), "made"),
        ((*_RUN, sys.executable, "-c", "import grpc; print(grpc.insecure_channel('unix:x'))"), "Channel"),
        (("-m", "lucky_transport", "stage", "show"), "grpc"),
    ],
    ids=["run", "make", "relative", "stage"],
)
def test_a_directory_that_is_gone_stops_none(arguments: tuple[str, ...], words: str, gone: Callable[..., str]) -> None:
    assert words in gone(*arguments)


@needs_grpc
@pytest.mark.parametrize(
    "arguments",
    [
        ("scan", "."),
        ("record", "shm://nobody", "--out", "calls.jsonl", "--", "true"),
        ("run", "--transport", "grpc", "--record", "calls.jsonl", "--", "true"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_path_from_a_directory_that_is_gone_is_refused(arguments: tuple[str, ...], gone: Callable[..., str]) -> None:
    gone("-m", "lucky_transport", *arguments, code=1)


@needs_grpc
@pytest.mark.parametrize("program", [_CALLS, _MAKES.format("shm"), _MAKES.format("grpc")], ids=["calls", "shm", "grpc"])
def test_flags_that_make_warnings_errors_find_none(program: str, tmp_path: Path) -> None:
    program = program.replace("PLACE", f"test-{os.getpid()}-flags")
    assert "made" in _python("-bb", "-W", "error", "-c", program, folder=tmp_path)


_RAISING = {
    "grpc_health/v1/health": ("RuntimeError('Gencode is newer')", "RuntimeError: Gencode is newer"),
    "grpc_reflection/v1alpha/reflection": ("RuntimeError()", "RuntimeError: "),
    "prometheus_client/__init__": ("AttributeError('too old')", "AttributeError: too old"),
    "torch/__init__": ("OSError('no libcudart')", "PyTorch cannot be imported: OSError: no libcudart"),
}


@needs_grpc
@pytest.mark.parametrize(
    "raising",
    [_RAISING, {"torch/__init__": ("SystemExit('no device')", "PyTorch cannot be imported: SystemExit: no device")}],
)
def test_optional_packages_that_raise_at_import_are_absent(raising: dict[str, tuple[str, str]], tmp_path: Path) -> None:
    for module, (error, _) in raising.items():
        file = tmp_path / f"{module}.py"
        file.parent.mkdir(parents=True)
        for package in (file.parent, file.parent.parent):
            (package / "__init__.py").touch()
        file.write_text(f"raise {error}")
    assert "made" in _python("-c", _MAKES.format("grpc"), folder=tmp_path, PYTHONPATH=str(tmp_path))
    printed = _python("-m", "lucky_transport", "doctor", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert all(said in printed for _, said in raising.values()), printed


@needs_grpc
@pytest.mark.parametrize("module", ["click", "lucky_transport.cli.serve"])
def test_ctrl_c_during_the_imports_ends_a_command_as_a_later_one_does(module: str, tmp_path: Path) -> None:
    interrupt = f"""
import signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["serve", "toy"]
from lucky_transport.__main__ import main
main()
"""
    done = python("-c", interrupt, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "\ninterrupted\n")
