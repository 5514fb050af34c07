"""A client that a signal handler interrupts while it leaves is out of the way of the next one, and holds nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import lucky_transport
from tests.plugins.shm.toys import connect, engine_process, reset
from tests.support.interrupted_moments import interrupted_at
from tests.support.resources import descriptors_of

pytestmark = pytest.mark.usefixtures("forked_engines")


def a_driver(name: str) -> Callable[[], None]:
    client = connect(name)
    reset(client)
    return client.close


def an_env(name: str) -> Callable[[], None]:
    env = lucky_transport.make(endpoint=f"shm://{name}")
    env.reset()
    return env.close


@pytest.mark.exhaustive
@pytest.mark.parametrize("opened", [a_driver, an_env])
def test_an_interrupted_close_is_made_by_the_next_one(name: str, opened: Callable[[str], Callable[[], None]]) -> None:
    with engine_process(name):
        for moment in itertools.count():
            close = opened(name)  # which needs the place of the last one
            is_interrupted = interrupted_at(moment, close)
            close()
            assert not descriptors_of(f"{name}.lock")
            if not is_interrupted:
                break
