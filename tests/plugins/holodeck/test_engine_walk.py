"""The walk of the page on the engine's end: a tick enters each function that it names, in that order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.walks import Recorder, check_walk, walk_of, watched_threads

PAGE = Path(__file__).parents[3] / "plugins" / "lucky_transport_holodeck" / "ENGINE_END.md"
WALK = walk_of(PAGE, "One tick")


def test_the_walk_is_short_and_its_files_have_what_it_names() -> None:
    check_walk(PAGE, WALK)


def test_a_tick_goes_the_way_that_the_page_shows(bench: Any, placed: Any, agent: Any) -> None:
    recorder = Recorder()
    with watched_threads(recorder):
        bench.serve(placed(1))
        client = bench.attach(agent("a"))
        client.reset()
        assert recorder.missing(WALK, client.tick) is None
