"""A program under the launcher whose methods are at different stages: one engine, at a port and in shared memory."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from lucky_transport.process import unique_name

pytest.importorskip("grpc")
pytest.importorskip("tomlkit", reason="needs pip install 'lucky-transport[scan]'")

Launch = Callable[..., "subprocess.CompletedProcess[str]"]
Python = Callable[..., list[str]]

SCHEMA = "/hazel.rpc.AgentService/GetAgentSchema"
INFO = "/hazel.rpc.SceneService/GetSceneInfo"
RESET = "/hazel.rpc.AgentService/ResetAgent"

CALL = """
import sys
def call(method, times=1, port=sys.argv[1]):
    import grpc
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        callable = channel.unary_unary(method, _registered_method=True)
        for _ in range(times):
            callable(b"", timeout=20)
"""


class Place:
    """Where an engine answers, both ways."""

    def __init__(self, port: str, endpoint: str) -> None:
        self.port = port
        self.endpoint = endpoint
        self.options = ("--transport", "staged", "--map", f"127.0.0.1:{port}={endpoint}")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    endpoint = f"shm://{unique_name()}"
    with lucky_transport.serve("toy", ["grpc://127.0.0.1:0", endpoint]) as serving:
        yield Place(serving.endpoints[0].address.rpartition(":")[2], endpoint)


@pytest.fixture
def stages(tmp_path: Path) -> Callable[..., Path]:
    """Write the stages of a program: `stages(default, method=stage, ...)` returns the file."""

    def write(default: str, rows: dict[str, str] | None = None) -> Path:
        path = tmp_path / "lucky_transport.toml"
        lines = [f'"{method}" = "{stage}"' for method, stage in (rows or {}).items()]
        path.write_text(f'[stages]\ndefault = "{default}"\n[stages.methods]\n' + "\n".join(lines) + "\n")
        return path

    return write


def calls(folder: Path) -> Counter[tuple[str, bool]]:
    """How often each method was called, over shared memory and not, from the report in `calls.json`."""
    found = Counter[tuple[str, bool]]()
    for one in json.loads((folder / "calls.json").read_text())["calls"]:
        found[one["method"], bool(one["endpoint"])] += one["count"]
    return found


def evidence(folder: Path) -> list[dict[str, Any]]:
    lines = [
        line for path in (folder / "lucky-evidence").glob("calls-*.jsonl") for line in path.read_text().split("\n")
    ]
    return [json.loads(line) for line in lines if line]


def test_each_method_goes_where_its_stage_says_and_reads_are_compared(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shadow", {"SceneService/*": "shm", "AgentService/GetAgentSchema": "canary 50%"})
    code = f"{CALL}\nfor method in {[RESET, SCHEMA, INFO]}: call(method, 10)"  # nothing changes under a read
    done = launch(*place.options, "--report", "calls.json", command=python(code, place.port))
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:{place.port} goes to gRPC or {place.endpoint}, each method as its stage says" in done.stderr
    counted = Counter(calls(tmp_path))
    drawn = counted[SCHEMA, True]  # which calls go to a canary is random
    assert f"{10 + drawn} calls over shared memory, {20 - drawn} over gRPC, by 1 process" in done.stderr
    assert f"127.0.0.1:{place.port} over gRPC: the stage of the method\n" in done.stderr
    assert counted == Counter(
        {(SCHEMA, True): drawn, (SCHEMA, False): 10 - drawn, (INFO, True): 10, (RESET, False): 10}
    )
    seen = Counter((one["method"], one["authority"]["transport"], one["verdict"]) for one in evidence(tmp_path))
    assert seen == Counter(
        {
            (SCHEMA, "grpc", "equal"): 10 - drawn,
            (SCHEMA, "shm", "equal"): drawn,
            (INFO, "shm", "equal"): 10,
            (RESET, "grpc", "not_compared"): 10,
        }
    )


def test_stages_that_change_change_the_running_program(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("grpc")
    code = f"""{CALL}
import pathlib, time
call("{SCHEMA}", 3)
path = pathlib.Path("lucky_transport.toml")
path.write_text(path.read_text().replace('"grpc"', '"shm"'))
for _ in range(60):  # the file is looked at once in a while
    time.sleep(0.05)
    call("{SCHEMA}", 1)
"""
    done = launch(*place.options, "--report", "calls.json", command=python(code, place.port))
    assert done.returncode == 0, done.stderr
    seen = calls(tmp_path)
    assert sum(seen.values()) == 63
    assert seen[SCHEMA, False] >= 3
    assert seen[SCHEMA, True] > 0


def test_children_are_staged_too(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    """A forked child has the parent's modules, a started one has none of them.

    gRPC's core now and then hangs for ever in a forked child, as it makes its first channel there; that child has
    called nothing yet, and another one is forked.
    """
    stages("shadow")
    (tmp_path / "calling.py").write_text(CALL)
    code = f"""
import os, signal, subprocess, sys, time
from calling import call

def ended_well(child):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return True
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False

call("{SCHEMA}", 1)
for _ in range(3):
    child = os.fork()
    if not child:
        call("{SCHEMA}", 2)
        sys.exit()
    if ended_well(child):
        break
else:
    sys.exit("every child hung")
subprocess.run([sys.executable, "-c", "import calling; calling.call('{SCHEMA}', 4)", *sys.argv[1:]], check=True)
"""
    variables = {"GRPC_ENABLE_FORK_SUPPORT": "1"}  # for the child's own calls over real gRPC
    done = launch(*place.options, "--report", "calls.json", command=python(code, place.port), **variables)
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == {(SCHEMA, False): 7}
    assert Counter(one["verdict"] for one in evidence(tmp_path)) == {"equal": 7}


def test_asyncio_is_staged_too(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shadow", {"SceneService/*": "shm"})
    code = f"""
import asyncio, sys
import grpc.aio
async def use():
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{sys.argv[1]}}") as channel:
        for method in {[SCHEMA, INFO]}:
            callable = channel.unary_unary(method)
            await asyncio.wait_for(asyncio.gather(*(callable(b"") for _ in range(5))), 20)
asyncio.run(use())
"""
    done = launch(*place.options, "--report", "calls.json", command=python(code, place.port))
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == {(SCHEMA, False): 5, (INFO, True): 5}
    assert Counter(one["verdict"] for one in evidence(tmp_path)) == {"equal": 10}


def test_a_candidate_that_is_absent_harms_nobody_and_is_evidence(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shadow")
    options = ("--transport", "staged", "--map", f"127.0.0.1:{place.port}=shm://{unique_name()}")
    done = launch(*options, command=python(f"{CALL}\ncall('{SCHEMA}')", place.port))
    assert done.returncode == 0, done.stderr
    (one,) = evidence(tmp_path)
    assert (one["verdict"], one["shadow"]["code"], one["authority"]["code"]) == ("failed", "UNAVAILABLE", "OK")


def test_quiet_stages_and_counts_nothing(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shadow")
    done = launch(*place.options, "--quiet", command=python(f"{CALL}\ncall('{SCHEMA}')", place.port))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(evidence(tmp_path)) == 1


def test_targets_beyond_the_map_stay_what_they_were(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shm")
    options = ("--transport", "staged", "--map", f"robot:1={place.endpoint}", "--report", "calls.json")
    done = launch(*options, command=python(f"{CALL}\ncall('{SCHEMA}')", place.port))
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == {(SCHEMA, False): 1}
    assert "the map does not name it" in done.stderr
    assert not (tmp_path / "lucky-evidence").exists()


def test_stages_that_cannot_be_read_are_an_error_where_the_channel_is_made(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path]
) -> None:
    stages("sideways")
    done = launch(*place.options, command=python(f"{CALL}\ncall('{SCHEMA}')", place.port))
    assert done.returncode == 1
    assert "ConfigError" in done.stderr
    assert "sideways" in done.stderr
