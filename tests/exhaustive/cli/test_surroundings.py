"""Where programs are started: a directory that is gone, flags that make warnings errors, packages that raise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

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
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Error in sitecustomize" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*_RUN, sys.executable, "-c", "import grpc; print(grpc.insecure_channel)"), "function"),
        (("-c", _MAKES.format("shm")), "made"),
        (("-m", "lucky_transport", "stage", "show"), "grpc"),
    ],
    ids=["run", "make", "stage"],
)
def test_a_working_directory_that_is_gone_stops_nobody(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    assert words in _python("-c", leave, *arguments, folder=gone)


@pytest.mark.parametrize("program", [_CALLS, _MAKES.format("shm"), _MAKES.format("grpc")], ids=["calls", "shm", "grpc"])
def test_flags_that_make_warnings_errors_find_none(program: str, tmp_path: Path) -> None:
    program = program.replace("PLACE", f"test-{os.getpid()}-flags")
    assert "made" in _python("-bb", "-W", "error", "-c", program, folder=tmp_path)


@pytest.mark.parametrize("module", ["grpc_health/v1/health", "grpc_reflection/v1alpha/reflection"])
def test_optional_packages_that_raise_at_import_are_not_there(module: str, tmp_path: Path) -> None:
    file = tmp_path / f"{module}.py"
    file.parent.mkdir(parents=True)
    for package in (file.parent, file.parent.parent):
        (package / "__init__.py").touch()
    file.write_text("raise RuntimeError('Gencode is newer')")
    assert "made" in _python("-c", _MAKES.format("grpc"), folder=tmp_path, PYTHONPATH=str(tmp_path))
    said = _python("-m", "lucky_transport", "doctor", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert "cannot be imported: Gencode is newer" in said


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
    command = [sys.executable, "-c", interrupt]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "\ninterrupted\n")
