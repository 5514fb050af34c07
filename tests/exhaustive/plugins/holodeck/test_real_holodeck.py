"""The unmodified `holodeck` 0.3.1 client, in its own Python, drives our engines."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.process import unique_name
from lucky_transport_holodeck.export import write_package
from tests.plugins.holodeck.peer import check_started, command, environment, run, run_as_pasted, unnamed_blocks
from tests.support.waiting import until_none_left

_SCRIPT = "original_client.py"


def test_it_starts_our_engine_resets_it_and_steps_it_for_1000_ticks_bit_for_bit(
    peer_python: str, tmp_path: Path
) -> None:
    check_started(_SCRIPT, peer_python, tmp_path / "0.3.1" / "worlds", 1000)


def test_it_drives_several_agents_of_an_engine_that_runs_again_and_again(
    peer_python: str, bench: Any, placed: Any
) -> None:
    bench.serve(placed(2))
    for _ in range(2):
        found = run(_SCRIPT, peer_python, "several", bench.names.uuid)
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
    first, second, third = run(_SCRIPT, peer_python, "places", bench.names.uuid)
    assert first["LocationSensor"] == [1, 2, 3]
    assert np.allclose(first["RotationSensor"], [10, 20, 30], atol=1e-4)
    assert second["LocationSensor"] == third["LocationSensor"] == [4, 5, 6]
    assert np.allclose(second["OrientationSensor"], [0, 1, 0, -1, 0, 0, 0, 0, 1], atol=1e-6)
    assert "dropped" not in caplog.text


def test_it_attaches_after_another_one_that_ended_without_a_goodbye(peer_python: str, bench: Any, placed: Any) -> None:
    bench.serve(placed(1))
    for _ in range(2):
        assert run(_SCRIPT, peer_python, "one_step", bench.names.uuid) == [1.0, 2.0, 3.0]


def test_an_engine_that_it_started_ends_when_it_is_killed(peer_python: str, tmp_path: Path) -> None:
    write_package(tmp_path / "0.3.1" / "worlds", "toy", api.make_engine("toy").spec, num_envs=1, seed=None, options={})
    before = unnamed_blocks()
    env = environment(HOLODECKPATH=str(tmp_path))
    with subprocess.Popen(command(_SCRIPT, peer_python, "waits"), env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        process.kill()
    until_none_left(lambda: unnamed_blocks() - before)


def test_the_pages_program_that_attaches_runs_as_pasted(peer_python: str, tmp_path: Path) -> None:
    import lucky_transport_holodeck

    page = (Path(lucky_transport_holodeck.__file__).with_name("README.md")).read_text(encoding="utf-8")
    block = page.partition("**It attaches to one that runs**")[2].partition("\n\n")[2].partition("`holodeck://`")[0]
    name = unique_name()
    assert block.count('demo"') + block.count("//demo") == 2
    assert "RangeFinderSensor" in run_as_pasted(block, name, peer_python, tmp_path)
