"""A program that uses real gRPC under the launcher: what it does stays the same, all of its processes are counted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.waiting import until

pytest.importorskip("grpc")

Launch = Callable[..., "subprocess.CompletedProcess[str]"]
Python = Callable[..., list[str]]

CALL = """
import os, sys
def call(port, times=1):
    import grpc
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo = channel.unary_unary("/t.T/Echo")
        for _ in range(int(times)):
            assert echo(b"x", timeout=20) == b"x"
"""

FAMILY = """
import multiprocessing, subprocess, sys
from calling import call
if __name__ == "__main__":
    port = sys.argv[1]
    for number, method in enumerate(("fork", "spawn", "forkserver")):
        child = multiprocessing.get_context(method).Process(target=call, args=(port, 10 ** (number + 1)))
        child.start()
        child.join()
        assert child.exitcode == 0, method
    subprocess.run([sys.executable, "-c", f"import calling; calling.call({port}, 2)"], check=True)
    script = f"{sys.executable} -c 'import calling, os; calling.call({port}, 3); os._exit(0)'"
    subprocess.run(["sh", "-c", script], check=True)
    call(port)
"""


def calls(folder: Path) -> dict[str, list[int]]:
    """Method -> how often each process called it, from the report in `calls.json`."""
    found: dict[str, list[int]] = {}
    for process in json.loads((folder / "calls.json").read_text())["processes"]:
        for one in process["calls"]:
            found.setdefault(one["method"], []).append(one["count"])
    return {method: sorted(counts) for method, counts in found.items()}


def test_all_children_are_switched_however_they_were_started(launch: Launch, grpc_port: int, tmp_path: Path) -> None:
    (tmp_path / "calling.py").write_text(CALL)
    (tmp_path / "family.py").write_text(FAMILY)
    done = launch(
        "--transport", "grpc", "--report", "calls.json", command=[sys.executable, "family.py", str(grpc_port)]
    )
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == {"/t.T/Echo": [1, 2, 3, 10, 100, 1000]}
    assert "1,116 over gRPC, by 6 processes" in done.stderr
    assert done.stderr.count("stays on gRPC: the transport is grpc") == 6


def test_names_taken_from_grpc_are_switched_and_so_is_aio_and_stubs_without_channels(
    launch: Launch, python: Python, grpc_port: int, tmp_path: Path
) -> None:
    code = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
from grpc import insecure_channel
from grpc.aio import insecure_channel as aio_channel
from grpc import experimental, intercept_channel, local_channel_credentials, secure_channel
target = f"localhost:{sys.argv[1]}"
assert insecure_channel(target).unary_unary("/t.T/Echo")(b"x") == b"x"
assert experimental.unary_unary(b"x", target, "/t.T/Echo", insecure=True, _registered_method=True) == b"x"
async def use():
    async with aio_channel(target) as channel:
        assert await channel.unary_unary("/t.T/Sum2")(b"") == b""
try:
    asyncio.run(use())
except Exception as error:
    print(error.code().name)
"""
    done = launch("--transport", "grpc", "--report", "calls.json", command=python(code, grpc_port))
    assert done.stdout == "UNIMPLEMENTED\n", done.stderr
    assert calls(tmp_path) == {"/t.T/Echo": [2], "/t.T/Sum2": [1]}


def test_a_child_that_outlives_the_program_goes_on_without_a_word(
    launch: Launch, python: Python, grpc_port: int, tmp_path: Path
) -> None:
    code = f"""{CALL}
child = '''
import os, sys, time
sys.path.insert(0, ".")
from calling import call
print("alive", flush=True)
while os.path.exists("run"): time.sleep(0.01)
call(sys.argv[1])
open("done", "w").close()
'''
import subprocess
with open("err", "wb") as err:
    process = subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], stdout=subprocess.PIPE, stderr=err)
process.stdout.readline()
"""
    (tmp_path / "calling.py").write_text(CALL)
    (tmp_path / "run").touch()
    done = launch("--transport", "grpc", command=python(code, grpc_port))
    assert "no gRPC call was counted" in done.stderr
    (tmp_path / "run").unlink()
    until((tmp_path / "done").exists)
    assert "Traceback" not in (tmp_path / "err").read_text()


def test_by_the_environment_alone_the_program_reports_for_its_children(
    environ: dict[str, str], tmp_path: Path, grpc_port: int
) -> None:
    command = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", "--print-environment"]
    printed = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout
    (tmp_path / "calling.py").write_text(CALL)
    (tmp_path / "family.py").write_text(FAMILY)
    script = f"{printed}{sys.executable} family.py {grpc_port}"
    done = subprocess.run(["sh", "-c", script], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("1,116 over gRPC, by 6 processes") == 1


def test_settings_that_cannot_be_read_end_the_program_with_78(
    launch: Launch, python: Python, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lucky_transport.toml").write_text("nonsense = 1")
    code = "import os; os.chdir('elsewhere'); import grpc; print('never')"
    done = launch("--transport", "grpc", command=python(code))
    assert (done.returncode, done.stdout) == (78, "")
    assert "cannot be switched: ConfigError: " in done.stderr
