"""The unmodified `holodeck` 0.3.1 client, in its own Python, drives our engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.process import unique_name
from lucky_transport.testing.suite import every, open_reference, zeros
from lucky_transport_holodeck.export import write_package
from tests.support.waiting import until_none_left

_TIMEOUT_S = 60


def _command(python: str, *arguments: str) -> list[str]:
    return [python, "-W", "ignore", str(Path(__file__).with_name("original_client.py")), *arguments]


def _environment(**more: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | more


def _run(python: str, *arguments: str, **environment: str) -> Any:
    """Return what `original_client.py` printed."""
    ended = subprocess.run(
        _command(python, *arguments),
        env=_environment(**environment),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def _blocks() -> set[str]:
    """Return the files of clients that chose a uuid themselves; those of tests beside this one have names of ours."""
    return {name for name in os.listdir("/dev/shm") if "HOLODECK" in name and "lucky_" not in name}


def test_it_starts_our_engine_resets_it_and_steps_it_for_1000_ticks_bit_for_bit(
    peer_python: str, tmp_path: Path
) -> None:
    options = {"obs_size": 6, "act_size": 4}
    engine = api.make_engine("toy", 1, seed=5, **options)
    write_package(tmp_path / "0.3.1" / "worlds", "toy", engine.spec, num_envs=1, seed=5, options=options)
    before = _blocks()
    found = _run(peer_python, "started", HOLODECKPATH=str(tmp_path))
    assert _blocks() <= before

    with open_reference("toy", 1, seed=5, **options) as reference:
        reset = every(reference, RESET)
        reference.step(zeros(reference), reset)  # the client resets when it is made, and then again
        rows = [reference.step(zeros(reference), reset).observations.tobytes().hex()]
        rewards, terminals, starts = [], [], []
        generator = np.random.default_rng(0)
        for _ in range(1000):
            frame = reference.step(generator.uniform(-1, 1, (1, 4)).astype(np.float32))
            rows.append(frame.observations.tobytes().hex())
            rewards.append(float(frame.rewards[0]))
            terminals.append(frame.any_ended)
            if frame.any_ended:
                starts.append(reference.step(zeros(reference), reset).observations.tobytes().hex())
    assert any(terminals)
    assert found == {"rows": rows, "rewards": rewards, "terminals": terminals, "starts": starts}


def test_it_drives_several_agents_of_an_engine_that_runs_again_and_again(
    peer_python: str, bench: Any, placed: Any
) -> None:
    bench.serve(placed(2))
    for _ in range(2):
        found = _run(peer_python, "several", bench.names.uuid)
        assert found == {
            "first": [1, 0, 0, 0, 0],
            "after": {"a": [2, 1, 2, 3, 4], "b": [2, 5, 6, 7, 8]},
            "stepped": [6, 9, 0, 0, 0],
            "b": [6, 5, 6, 7, 8],
        }


def test_it_teleports_and_sends_commands_of_every_kind(
    peer_python: str, bench: Any, placed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    first, second, third = _run(peer_python, "places", bench.names.uuid)
    assert first["LocationSensor"] == [1, 2, 3]
    assert np.allclose(first["RotationSensor"], [10, 20, 30], atol=1e-4)
    assert second["LocationSensor"] == third["LocationSensor"] == [4, 5, 6]
    assert np.allclose(second["OrientationSensor"], [0, 1, 0, -1, 0, 0, 0, 0, 1], atol=1e-6)
    assert "dropped" not in caplog.text


def test_it_attaches_after_another_one_that_ended_without_a_goodbye(peer_python: str, bench: Any, placed: Any) -> None:
    bench.serve(placed(1))
    for _ in range(2):
        assert _run(peer_python, "one_step", bench.names.uuid) == [1.0, 2.0, 3.0]


def test_an_engine_that_it_started_ends_when_it_is_killed(peer_python: str, tmp_path: Path) -> None:
    write_package(tmp_path / "0.3.1" / "worlds", "toy", api.make_engine("toy").spec, num_envs=1, seed=None, options={})
    before = _blocks()
    command, environment = _command(peer_python, "waits"), _environment(HOLODECKPATH=str(tmp_path))
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        process.kill()
    until_none_left(lambda: _blocks() - before)


def test_the_pages_program_that_attaches_runs_as_pasted(peer_python: str, tmp_path: Path) -> None:
    import lucky_transport_holodeck

    page = (Path(lucky_transport_holodeck.__file__).with_name("README.md")).read_text(encoding="utf-8")
    block = page.partition("**It attaches to one that runs**")[2].partition("\n\n")[2].partition("`holodeck://`")[0]
    name = unique_name()
    text = textwrap.dedent(block).replace("holodeck://demo", f"holodeck://{name}").replace('"demo"', f'"{name}"')
    assert text.count(name) == 2
    (tmp_path / "peer" / "bin").mkdir(parents=True)
    python = tmp_path / "peer" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {peer_python} "$@"\n')
    python.chmod(0o755)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", f"{text}\nstatus=$?\nkill %1; wait; exit $status"],
        cwd=tmp_path,
        env=_environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=2 * _TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "RangeFinderSensor" in ran.stdout
