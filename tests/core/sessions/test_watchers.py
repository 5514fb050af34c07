"""Those that watch a session: they come and go, and miss nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.sessions.sessions import Sessions
from tests.support.waiting import until


class Watcher:
    """Takes snapshots; outgrown: it takes none any more and has ended. on_snapshot: called with each."""

    def __init__(self, *, outgrown: bool = False, on_snapshot: Callable[[], object] = lambda: None) -> None:
        self.seen: list[int] = []
        self.has_ended = outgrown
        self._on_snapshot = on_snapshot

    def on_snapshot(self, snapshot: WorldSnapshot) -> bool:
        self._on_snapshot()
        self.seen.append(snapshot.ticks)
        return not self.has_ended

    def end(self) -> None:
        raise OSError("its file is gone")


def test_a_watcher_that_comes_while_another_one_is_removed_sees_every_later_snapshot(sessions: Sessions) -> None:
    session = sessions.create()
    sessions.advance(session)
    lock, late = sessions.find(session).world_lock, Watcher()
    lock.subscribe(Watcher(outgrown=True, on_snapshot=lambda: lock.subscribe(late)))
    for _ in range(3):
        sessions.advance(session)
    assert late.seen[-2:] == [3, 4]


def test_the_next_reader_has_the_world_shown_to_a_new_watcher_too(sessions: Sessions) -> None:
    session = sessions.create()
    sessions.advance(session)
    watcher = Watcher()
    sessions.find(session).world_lock.subscribe(watcher)
    assert watcher.seen == []
    sessions.latest(session)
    assert watcher.seen == [1]


def test_a_session_ends_for_all_its_watchers_though_one_of_them_raises(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create()
    sessions.advance(session)
    for _ in range(2):
        sessions.find(session).world_lock.subscribe(Watcher())
    sessions.destroy(session)
    assert worlds.made[0].closed == 1


def test_a_session_is_not_idle_while_it_is_watched(
    limited: Callable[..., AbstractContextManager[Sessions]],
) -> None:
    with limited(sweep_s=0.005) as sessions:
        watcher = Watcher()
        watched = sessions.create()
        sessions.find(watched).world_lock.subscribe(watcher)
        sessions.limits = replace(sessions.limits, idle_s=0.0)
        for _ in range(3):  # another one that is created later is reaped: the watched one was idle for longer
            other = sessions.create()
            until(lambda other=other: other not in sessions.ids())
        assert sessions.ids() == [watched]
        watcher.has_ended = True  # its client has gone
        until(lambda: sessions.ids() == [])
