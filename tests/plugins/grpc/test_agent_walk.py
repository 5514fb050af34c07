"""The walk of the page on agents' steps: a step of four agents enters each function that it names, in that order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.walks import Recorder, check_walk, walk_of, watched_threads

pytest.importorskip("grpc")

PAGE = Path(__file__).parents[3] / "plugins" / "lucky_transport_grpc" / "AGENT_STEPS.md"
WALK = walk_of(PAGE, "One step of four agents")


def test_the_walk_is_short_and_its_files_have_what_it_names() -> None:
    check_walk(PAGE, WALK)


def test_a_step_of_four_agents_goes_the_way_that_the_page_shows(serve: Any, connect: Any, zeros: Any) -> None:
    recorder = Recorder()
    with watched_threads(recorder):
        client = connect(serve(num_envs=4), "agent")
        assert recorder.missing(WALK, lambda: client.step(zeros(client))) is None
