"""All processes of a program are switched and counted: by launcher, environment or `lucky_transport.auto`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from tests.plugins.stubs.run.conftest import BOOTSTRAP, Launch, Python
from tests.support.waiting import until

pytest.importorskip("grpc")

from tests.plugins.stubs.differential.ends import generic_handler
from tests.plugins.stubs.differential.samples import ECHOES

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


def test_all_children_are_switched_however_they_were_started(launch: Launch, ends: Any, tmp_path: Path) -> None:
    (tmp_path / "calling.py").write_text(CALL)
    (tmp_path / "family.py").write_text(FAMILY)
    endpoint = ends.begin_at(ends.server(generic_handler(ECHOES, "t.T")))
    options = ("--transport", "shm", "--endpoint", endpoint, "--require", "--report", "calls.json")
    done = launch(*options, command=[sys.executable, "family.py", "50051"])
    assert done.returncode == 0, done.stderr
    processes = json.loads((tmp_path / "calls.json").read_text())["processes"]
    assert sorted(one["count"] for process in processes for one in process["calls"]) == [1, 2, 3, 10, 100, 1000]
    assert "1,116 calls over shared memory, 0 over gRPC, by 6 processes" in done.stderr


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


@pytest.mark.parametrize("by", ["environment", "auto"])
def test_without_a_launcher_the_program_reports_for_its_children(
    execute: Launch, tmp_path: Path, grpc_port: int, by: str
) -> None:
    printed = "export LUCKY_TRANSPORT=grpc\n"
    if by == "environment":
        command = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", "--print-environment"]
        printed = execute(command).stdout
    (tmp_path / "calling.py").write_text(CALL)
    (tmp_path / "family.py").write_text(FAMILY if by == "environment" else f"import lucky_transport.auto\n{FAMILY}")
    done = execute(["sh", "-c", f"{printed}{sys.executable} family.py {grpc_port}"])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("1,116 over gRPC, by 6 processes") == 1


@pytest.fixture
def run(execute: Launch) -> Launch:
    """Run a program without a launcher."""
    return lambda code, *arguments, flags=(), **variables: execute(
        [sys.executable, *flags, "-c", code, *map(str, arguments)], **variables
    )


AUTO = "import lucky_transport.auto"
OVER_GRPC = {"LUCKY_TRANSPORT": "grpc"}


@pytest.mark.parametrize(
    ("flags", "first", "variables", "status", "words"),
    [
        ((), AUTO, OVER_GRPC, 0, "0 calls over shared memory, 1 over gRPC, by 1 process"),
        (("-I",), f"import os; os.environ |= {OVER_GRPC}; {AUTO}", {}, 0, "1 over gRPC, by 1 process"),
        (("-E",), f"import os; os.environ |= {OVER_GRPC}; {AUTO}", {}, 0, "1 over gRPC, by 1 process"),
        ((), f"import grpc; {AUTO}", OVER_GRPC, 0, "grpc was imported before lucky_transport.auto"),
        ((), AUTO, OVER_GRPC | {"LUCKY_RUN_QUIET": "1"}, 0, ""),
        ((), AUTO, {}, 1, "ConfigError: nothing says where the engine is"),
    ],
)
def test_a_program_that_imports_auto_first_is_switched_and_says_so(
    run: Launch, grpc_port: int, flags: tuple[str, ...], first: str, variables: dict[str, str], status: int, words: str
) -> None:
    done = run(f"{first}\n{CALL}call(sys.argv[1])", grpc_port, flags=flags, **variables)
    assert done.returncode == status, done.stderr
    assert words in done.stderr if words else done.stderr == ""


def test_under_a_launcher_it_changes_nothing(run: Launch, grpc_port: int) -> None:
    code = f"import lucky_transport.auto, sys\n{CALL}call(sys.argv[1])"
    launcher = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'lucky_transport', 'run', *sys.argv[1:]])"
    done = run(launcher, "--transport", "grpc", "--", sys.executable, "-c", code, grpc_port)
    assert done.stderr.count("1 over gRPC, by 1 process") == 1
    assert "imported before" not in done.stderr


@pytest.mark.parametrize("module", ["", "import lucky_transport.auto"])
def test_without_the_launcher_a_program_is_told_nothing_unasked(run: Launch, module: str) -> None:
    switched = {"LUCKY_TRANSPORT": "auto", "LUCKY_ENDPOINT": "shm://nobody_serves_this"}
    switched |= {} if module else {"PYTHONPATH": BOOTSTRAP}
    for asked in "", "-":
        done = run(
            f"{module}\nimport grpc\ngrpc.insecure_channel('localhost:50051')", LUCKY_RUN_REPORT=asked, **switched
        )
        assert (done.returncode, done.stdout, "stays on gRPC" in done.stderr) == (0, "", bool(asked))
        assert asked or done.stderr == ""


LEFT = """
import asyncio

import grpc


async def main():
    server = grpc.aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    raise KeyboardInterrupt


asyncio.run(main())
"""


def test_a_server_that_ctrl_c_ends_with_its_loop_says_so_as_often_as_over_grpc(
    run_switched: Launch, tmp_path: Path
) -> None:
    program = tmp_path / "left.py"
    program.write_text(LEFT)
    places = ("--transport", "shm", "--map", f"*=shm://{unique_name()}_{{port}}"), ("--transport", "grpc")
    over_shm, over_grpc = (run_switched(*place, command=[str(program)]).stderr for place in places)
    assert over_shm.count("Event loop is closed") == over_grpc.count("Event loop is closed") == 1
