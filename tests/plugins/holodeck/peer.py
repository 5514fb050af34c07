"""Runs what an original client does, in its own Python: `original_client.py`, which imports nothing of ours."""

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.testing.suite import every, open_reference, zeros
from lucky_transport_holodeck.export import write_package
from tests.support.command import execute, stdout_of

TIMEOUT_S = 60


def command(python: str, *arguments: str) -> list[str]:
    """Return the command line of the script."""
    return [python, "-W", "ignore", str(Path(__file__).with_name("original_client.py")), *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return our environment without what makes another Python import our packages."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | more


def run(python: str, *arguments: str, **more: str) -> Any:
    """Return what the script printed last, as JSON; `more`: of its environment."""
    printed = stdout_of(execute(*command(python, *arguments), env=environment(**more), timeout=TIMEOUT_S))
    return json.loads(printed.splitlines()[-1])


def run_as_pasted(block: str, name: str, python: str, folder: Path) -> str:
    """Return what a page's indented shell block prints, typed in `folder`, where `python` is peer/bin/python; its
    engine is called `name` and not demo.
    """
    text = textwrap.dedent(block).replace("holodeck://demo", f"holodeck://{name}").replace('"demo"', f'"{name}"')
    (folder / "peer" / "bin").mkdir(parents=True)
    peer = folder / "peer" / "bin" / "python"
    peer.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    peer.chmod(0o755)
    script = f"{text}\nstatus=$?\nkill %1 2> /dev/null; wait; exit $status"
    variables = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return stdout_of(execute("bash", "-c", script, cwd=folder, env=variables, timeout=2 * TIMEOUT_S))


def check_started(python: str, worlds: Path, steps: int) -> None:
    """Have the client start our toy from its folder `worlds`, and hold what it sees against the toy, bit for bit."""
    options = {"obs_size": 6, "act_size": 4}
    write_package(worlds, "toy", api.make_engine("toy", 1, **options).spec, num_envs=1, seed=5, options=options)
    before = unnamed_blocks()
    found = run(python, "started", str(steps), HOLODECKPATH=str(worlds.parents[1]))
    assert unnamed_blocks() <= before

    with open_reference("toy", 1, seed=5, **options) as reference:
        reset = every(reference, RESET)
        reference.step(zeros(reference), reset)  # the client resets when it is made, and then again
        rows = [reference.step(zeros(reference), reset).observations.tobytes().hex()]
        rewards, terminals, starts = [], [], []
        generator = np.random.default_rng(0)
        for _ in range(steps):
            frame = reference.step(generator.uniform(-1, 1, (1, 4)).astype(np.float32))
            rows.append(frame.observations.tobytes().hex())
            rewards.append(float(frame.rewards[0]))
            terminals.append(frame.any_ended)
            if frame.any_ended:
                starts.append(reference.step(zeros(reference), reset).observations.tobytes().hex())
    assert any(terminals)
    assert found == {"rows": rows, "rewards": rewards, "terminals": terminals, "starts": starts}


def unnamed_blocks() -> set[str]:
    """Return the files of clients that chose a uuid themselves; those of tests beside this one have names of ours."""
    return {name for name in os.listdir("/dev/shm") if "HOLODECK" in name and "lucky_" not in name}
