"""Runs each tool many times without a plant, beside other work: every run must find all equal.

    python -m tests.planted.control_runs --runs 20 --busy 4
    python -m tests.planted.control_runs --runs 100 --busy 0 --tool 'parity --server, gRPC twice'

A service of a team's own is one that makes a noise: what its answers, and their moments, hang on beside the transport.
Engines run in processes of their own, as for a user. Prints a line per tool, and the report of each run that was not
equal; exit code 0 only when there was none.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from lucky_transport_migration.parity import service_proof
from tests.endurance.beside import co_runners
from tests.planted.plant import PLANT
from tests.planted.tools import TOOLS, Report, command, site

_DESK = Path(__file__).parents[1] / "exhaustive" / "planted" / "desk_server.py"
_PROTO = Path(__file__).with_name("desk.proto")
#: Those of `desk_server`.
_NOISES = (
    "pauses before answers",
    "some calls are ten times slower",
    "maps in another order",
    "other keys in another order",
    "the collector at each call",
    "megabytes of garbage",
    "another line in the log",
    "the interpreter switches often",
    "threads come and go",
    "a thread that computes",
)


def desk_server(folder: Path, *plant: str) -> tuple[str, ...]:
    """Return the options of `parity` that name a server, made in that folder, and what describes it."""
    shutil.copy(_DESK, folder)
    tools = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_PROTO.parent}", f"--python_out={folder}", str(_PROTO)]
    subprocess.run(tools, check=True)
    server = shlex.join([sys.executable, str(folder / "desk_server.py"), "PORT", *plant]).replace("PORT", "{port}")
    return "--server", server, "--proto", str(_PROTO)


def parity_server(folder: Path, noise: str, other: str = "shm") -> Report:
    """`lucky-transport parity --server`. other: the transport of the second server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_proof, "CANDIDATE", other)
        return command("lucky_transport_migration.cli.parity", *desk_server(folder, noise))


#: What is run: the tools of this folder, and `parity` of a service of a team's own.
CONTROLS = {
    **TOOLS,
    "parity --server, gRPC twice": lambda folder: parity_server(folder, "", "grpc"),
    **{f"parity --server, {noise}": partial(parity_server, noise=noise) for noise in _NOISES},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2 * (os.cpu_count() or 1), help="processes that work meanwhile")
    parser.add_argument("--tool", choices=list(CONTROLS), action="append", help="only these")
    given = parser.parse_args()
    unequal = 0
    os.environ.pop(PLANT, None)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(site(folder, stack.enter_context(pytest.MonkeyPatch.context())))
        stack.enter_context(co_runners(given.busy, look_s=0.0))
        for tool in given.tool or CONTROLS:
            equal = 0
            for _ in range(given.runs):
                with tempfile.TemporaryDirectory() as own:
                    report = CONTROLS[tool](Path(own))
                equal += report.status == 0
                if report.status:
                    print(report.text)
            print(f"{tool}: {equal} of {given.runs} equal", flush=True)
            unequal += given.runs - equal
    return min(unequal, 1)


if __name__ == "__main__":
    sys.exit(main())
