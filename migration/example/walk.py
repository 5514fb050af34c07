"""A training script for luckyrobots 0.5.0 from gRPC to `complete`, step by step, with the proof after each.

    pip install -e '.[all]' luckyrobots==0.5.0                    # what it needs
    python migration/example/walk.py                              # about two minutes
    python migration/example/walk.py --without-grpc VENV/bin/python

Every step is a command that a user types; it is shown, and what it says is shown where it fails. Each run gets a fresh
engine with the same seed, and must see the same trajectory, bit for bit. The last run is made by a Python that has no
grpcio: one in a new virtual environment, or the one given.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lucky_transport.process import EngineProcess, unique_name

HERE = Path(__file__).resolve().parent
ENGINE, SEED = "mujoco:quadruped", 7
#: Methods whose evidence the gate judges: those of every step; the others are called a few times a run.
JUDGED = ("MujocoService/GetJointState", "AgentService/Step")
#: train.py takes its port from the command line, so the user has to say that it is the engine's.
PORT = ("--target", "localhost:port")
_PATIENCE_S = 300
#: Module -> what pip installs it by.
NEEDED = {
    "luckyrobots": "luckyrobots==0.5.0",
    "grpc": "lucky-transport[grpc]",
    "mujoco": "lucky-transport[mujoco]",
    "libcst": "lucky-transport[migration]",
    "tomlkit": "lucky-transport[migration]",
}


class Walk:
    """The working copy of the project, and what its runs said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trajectories: dict[str, str] = {}
        self.name = ""
        self.port = 0

    @contextmanager
    def engine(self) -> Iterator[None]:
        """Serve a fresh engine over gRPC and shared memory at once."""
        self.name = unique_name()
        process = EngineProcess(ENGINE, ["grpc://127.0.0.1:0", f"shm://{self.name}"], seed=SEED)
        try:
            self.port = int(process.endpoints[0].address.rpartition(":")[2])
            yield
        finally:
            process.stop()

    def tool(self, *words: str, expect: int = 0) -> str:
        """Run `lucky-transport` with these words; return what it printed. Ends the walk for another exit status."""
        return self._run([sys.executable, "-P", "-m", "lucky_transport", *words], "lucky-transport", words, expect)

    def train(self, step: str, *before: str, python: str = sys.executable) -> None:
        """Train, with the words of a command before it, and hold the trajectory against all others."""
        words = [*before, python, "train.py", "--port", str(self.port)]
        said = self.tool(*words) if before else self._run(words, "python", words[1:], 0)
        result = json.loads(said.splitlines()[-1])
        self.trajectories[step] = result["trajectory"]
        print(f"  trajectory {result['trajectory'][:16]}, best episode {result['best']:.6f}")
        if len(set(self.trajectories.values())) != 1:
            sys.exit(f"the trajectory of step {step!r} differs: {self.trajectories}")

    def under(self, transport: str) -> tuple[str, ...]:
        """The command that switches an unmodified program."""
        target = f"127.0.0.1:{self.port}=shm://{self.name}"
        return ("run", "--transport", transport, "--map", target, "--")

    def _run(self, command: Sequence[str], title: str, words: Sequence[str], expect: int) -> str:
        print(f"  $ {title} {shlex.join(words).replace(sys.executable, 'python')}", flush=True)
        # No LUCKY_* setting of the surroundings: what is configured here is in the project's own file.
        environ = {key: value for key, value in os.environ.items() if not key.startswith("LUCKY_")}
        done = subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
        if done.returncode != expect:
            sys.exit(f"exit status {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
        return done.stdout


def walk(walker: Walk, without_grpc: str) -> None:
    """Go all the way; ends the program with the reason when a step does not hold."""
    headline("What is there?")
    found = json.loads(walker.tool("scan", ".", "--json"))["findings"]
    print(f"  {len(found)} places use gRPC")
    walker.tool("scan", ".", "--gate", "package", expect=1)

    headline("As it is, over gRPC")
    with walker.engine():
        walker.train("grpc")

    headline("Unchanged, over shared memory")
    with walker.engine():
        walker.train("shared memory", *walker.under("shm"))

    headline("Shadow: gRPC answers, reads are asked over shared memory too, and compared")
    walker.tool("stage", "set", "MujocoService/*", "shadow")
    with walker.engine():
        walker.train("shadow", *walker.under("staged"))

    headline("What changes the world is not asked twice: it is recorded, and replayed on a second engine")
    with walker.engine():
        endpoint = f"shm://{walker.name}"
        recorder = ("record", endpoint, "--out", "run.jsonl.gz", "--seed", str(SEED), "--")
        walker.train("recorded", *recorder, sys.executable, "-P", "-m", "lucky_transport", *walker.under("staged"))
    with walker.engine():
        walker.tool("replay", "run.jsonl.gz", f"shm://{walker.name}", "--evidence", "lucky-evidence")

    headline("Canary: some calls are answered over shared memory")
    walker.tool("stage", "set", "MujocoService/*", "canary 10%")
    with walker.engine():
        walker.train("canary", *walker.under("staged"))

    headline("The gate judges by the evidence; runs this short cannot show the latency, so it says what is missing")
    for method in JUDGED:
        verdict = json.loads(walker.tool("gate", "--method", method, "--json", expect=1))
        (judged,) = verdict["methods"].values()
        if judged["mismatches"] or judged["failures"]:
            sys.exit(f"the answers of {method} differ: {judged}")
        print(f"  {judged['compared']} compared and equal, held back: {'; '.join(judged['reasons'])}")

    headline("So a person decides: shared memory answers, then gRPC is not asked any more")
    for stage in ("shm", "complete"):
        walker.tool("stage", "set", "*", stage)
        with walker.engine():
            walker.train(stage, *walker.under("staged"))

    headline("gRPC goes")
    with walker.engine():
        walker.tool("scan", ".", "--fix", "--yes", "--endpoint", f"shm://{walker.name}", *PORT)
        walker.tool("scan", ".", "--gate", "package")
        walker.train("fixed", python=without_grpc)


def headline(text: str) -> None:
    """Say what comes next."""
    print(f"\n{text}", flush=True)


def check_needed() -> None:
    """End the program, before anything is made, when it lacks a package."""
    missing = [module for module in NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        packages = " ".join(f"'{package}'" for package in dict.fromkeys(NEEDED[module] for module in missing))
        sys.exit(f"walk.py needs {', '.join(missing)}, not installed for {sys.executable}; pip install {packages}")


def python_without_grpc(folder: Path) -> str:
    """Make a virtual environment with lucky-transport and MuJoCo, and nothing of gRPC; return its Python."""
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{HERE.parents[1]}[mujoco]"], check=True)
    return python


def main() -> None:
    """Walk in a temporary copy of the project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-grpc", metavar="PYTHON", default="", help="a Python that has no grpcio")
    options = parser.parse_args()
    check_needed()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python = options.without_grpc or python_without_grpc(folder)
        probe = "import importlib.util as u, sys; sys.exit(u.find_spec('grpc') is not None)"
        if subprocess.run([python, "-c", probe], check=False).returncode:
            sys.exit(f"{python} has grpcio: give one that has not")
        project = shutil.copytree(HERE / "project", folder / "project")
        walker = Walk(project)
        walk(walker, python)
    print(f"\ncomplete: one trajectory, bit for bit, in {len(walker.trajectories)} runs, the last one without grpcio")


if __name__ == "__main__":
    main()
