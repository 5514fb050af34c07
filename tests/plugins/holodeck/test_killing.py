"""An engine ends or is killed: its client gets an error, nothing is left, and a new engine starts in its place."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.errors import PeerDied

pytestmark = pytest.mark.usefixtures("forked_engines")


@pytest.mark.parametrize("doing", ["waiting", "between"])
def test_a_killed_engine_is_an_error_and_a_new_one_starts_in_its_place(bench: Any, agent: Any, doing: str) -> None:
    engine = bench.spawn(act_size=4, hang_at=3)  # a reset, a tick, and then none any more
    with bench.attach(agent("a")) as world:
        world.reset()
        world.tick()
        if doing == "waiting":
            killer = threading.Timer(0.1, engine.kill)
            killer.start()
        else:
            engine.kill()
        with pytest.raises(PeerDied, match="ended"):
            world.tick()
        with pytest.raises(PeerDied):
            world.tick()
    assert bench.leftovers() == []  # the client that saw it die has cleaned up
    engine.stop()
    again = bench.spawn(act_size=4)
    with bench.attach(agent("a")) as world:
        assert world.reset()["a"]["RangeFinderSensor"].any()
    assert again.stop() == 0


def test_a_killed_engine_that_no_client_saw_die_is_replaced(bench: Any, agent: Any) -> None:
    engine = bench.spawn()
    engine.kill()
    engine.stop()
    again = bench.spawn(act_size=4)
    with bench.attach(agent("a")) as world:
        world.reset()
        world.tick()
    assert again.stop() == 0


def test_an_engine_that_stops_is_an_error_for_its_client(bench: Any, agent: Any) -> None:
    engine = bench.spawn(act_size=4)
    with bench.attach(agent("a")) as world:
        world.reset()
        assert engine.stop() == 0
        with pytest.raises(PeerDied, match="ended"):
            world.tick()
    assert bench.leftovers() == []
