"""`import lucky_transport.auto` as the first line of a program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_transport import registry
from lucky_transport.hookspecs import PatchPlugin

Python = Callable[..., list[str]]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

CALL = """
def call(port):
    import grpc
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/t.T/Echo")(b"x", timeout=20) == b"x"
"""


@pytest.fixture
def run(environ: dict[str, str], tmp_path: Path, python: Python) -> Run:
    """Run a program without a launcher."""

    def run(
        code: str, *arguments: object, flags: tuple[str, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        executable, *rest = python(code, *arguments)
        command = [executable, *flags, *rest]
        return subprocess.run(
            command, env=environ | variables, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    return run


def test_it_activates_every_switch_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core names no plugin: it asks the registry."""
    activated: list[str] = []
    found = registry.Registry(patches={"one": PatchPlugin("one", f"{__name__}:activate", "a switch")})
    module = type(sys)(__name__)
    module.activate = lambda: activated.append("one")  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, __name__, module)
    monkeypatch.setattr(registry, "registry", lambda: found)
    monkeypatch.delitem(sys.modules, "lucky_transport.auto", raising=False)
    import lucky_transport.auto

    assert activated == ["one"]
    monkeypatch.delitem(sys.modules, "lucky_transport.auto")
    assert lucky_transport.auto.__all__ == []


@pytest.fixture
def port(grpc_port: int) -> int:
    return grpc_port


@pytest.mark.parametrize("flags", [(), ("-I",), ("-E",)], ids=str)
def test_its_channels_are_switched_and_reported_whatever_the_flags(run: Run, port: int, flags: tuple[str, ...]) -> None:
    code = (
        f"import os, sys; os.environ['LUCKY_TRANSPORT'] = 'grpc'; import lucky_transport.auto\n{CALL}call(sys.argv[1])"
    )
    done = run(code, port, flags=flags)
    assert done.returncode == 0, done.stderr
    assert "0 calls over shared memory, 1 over gRPC, by 1 process" in done.stderr


def test_its_children_are_switched_too(run: Run, port: int, tmp_path: Path) -> None:
    (tmp_path / "calling.py").write_text(CALL)
    code = """
import lucky_transport.auto
import multiprocessing, subprocess, sys
from calling import call
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=call, args=(sys.argv[1],))
    child.start()
    child.join()
    subprocess.run([sys.executable, "-c", f"import calling; calling.call({sys.argv[1]})"], check=True)
"""
    done = run(code, port, LUCKY_TRANSPORT="grpc")
    assert "0 calls over shared memory, 2 over gRPC, by 2 processes" in done.stderr


def test_without_a_place_to_go_it_raises(run: Run) -> None:
    pytest.importorskip("grpc")
    done = run("import lucky_transport.auto; print('never')")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ConfigError: nothing says where the engine is" in done.stderr


def test_an_import_that_comes_too_late_is_said(run: Run, port: int) -> None:
    code = f"import grpc, sys; import lucky_transport.auto\n{CALL}call(sys.argv[1])"
    done = run(code, port, LUCKY_TRANSPORT="grpc")
    assert "grpc was imported before lucky_transport.auto" in done.stderr
    assert "1 over gRPC" in done.stderr


def test_quiet_neither_counts_nor_says(run: Run, port: int) -> None:
    code = f"import lucky_transport.auto, sys\n{CALL}call(sys.argv[1])"
    done = run(code, port, LUCKY_TRANSPORT="grpc", LUCKY_RUN_QUIET="1")
    assert (done.returncode, done.stderr) == (0, "")


def test_under_a_launcher_it_changes_nothing(run: Run, port: int) -> None:
    code = f"import lucky_transport.auto, sys\n{CALL}call(sys.argv[1])"
    launcher = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'lucky_transport', 'run', *sys.argv[1:]])"
    done = run(launcher, "--transport", "grpc", "--", sys.executable, "-c", code, port)
    assert done.stderr.count("1 over gRPC, by 1 process") == 1
    assert "imported before" not in done.stderr
