"""Engine and client take turns, however the last client left."""

from __future__ import annotations

import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.errors import Busy, NotReachable
from lucky_transport.process import unique_name
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.semaphores import Semaphore
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def names() -> Names:
    return Names(unique_name())


def test_the_engine_has_the_first_turn_and_the_client_none(names: Names) -> None:
    handshake = EngineHandshake(names, "block")
    try:
        handshake.post_loading()
        server, client, loading = (Semaphore.open(name) for name in (names.server, names.client, names.loading))
        assert (server.value, client.value, loading.value) == (1, 0, 1)
        for each in (server, client, loading):
            each.close()
    finally:
        handshake.close()


def test_the_engine_announces_itself_on_a_semaphore_that_the_client_made(names: Names) -> None:
    loading = Semaphore.create(names.loading, 0)
    handshake = EngineHandshake(names, "block")
    try:
        handshake.post_loading()
        assert loading.wait(1.0)
    finally:
        handshake.close()
        loading.close()


def test_what_a_dead_engine_left_is_replaced(names: Names) -> None:
    for name, value in ((names.server, 3), (names.client, 4), (names.loading, 1)):
        Semaphore.create(name, value).close()
    handshake = EngineHandshake(names, "block")
    try:
        assert handshake.wait(0)
        assert not handshake.wait(0)
        assert not handshake.is_client_posted
    finally:
        handshake.close()


def test_a_second_engine_under_the_same_uuid_is_refused(names: Names) -> None:
    handshake = EngineHandshake(names, "block")
    try:
        with pytest.raises(Busy, match="this process"):
            EngineHandshake(names, "block")
    finally:
        handshake.close()
    EngineHandshake(names, "block").close()


def test_a_client_that_is_a_turn_ahead_comes_back_in_step(names: Names) -> None:
    handshake = EngineHandshake(names, "block")
    server, client = Semaphore.open(names.server), Semaphore.open(names.client)
    try:
        assert handshake.wait(0)
        handshake.post()
        client.post()  # one too many: it came where another one had just died
        assert client.wait(0)
        server.post()
        assert client.wait(0)  # it is ahead: it reads before the engine has ticked
        server.post()
        assert handshake.wait(0)
        handshake.post()
        assert not client.wait(0)  # and now it waits for the tick it asked for
        assert handshake.wait(0)
        handshake.post()
        assert client.wait(0)
        assert not server.value
    finally:
        server.close()
        client.close()
        handshake.close()


def test_names_that_a_client_removed_are_made_anew(names: Names) -> None:
    handshake = EngineHandshake(names, "block")
    try:
        assert handshake.wait(0)
        assert handshake.is_first()
        assert not handshake.is_first()
        semaphores.unlink(names.server)
        assert not handshake.are_names_removed  # it is still at it
        semaphores.unlink(names.client)
        assert handshake.are_names_removed
        handshake.renew()
        assert not handshake.are_names_removed
        assert handshake.is_first()
        Semaphore.open(names.server).close()
    finally:
        handshake.close()


def test_a_knock_ends_one_wait_and_is_no_turn(names: Names) -> None:
    handshake = EngineHandshake(names, "block")
    server, client = Semaphore.open(names.server), Semaphore.open(names.client)
    try:
        handshake.wait(0)
        handshake.knock()
        handshake.knock()
        assert not handshake.wait(PATIENCE_S)
        assert not server.value
        server.post()
        handshake.knock()
        assert [handshake.wait(0) for _ in range(3)] == [False, True, False]
        handshake.knock()
        handshake.post()
        assert client.wait(0), "a knock is no sign that the client is ahead"
    finally:
        server.close()
        client.close()
        handshake.close()


def test_a_semaphore_that_is_not_there_is_not_reachable(names: Names) -> None:
    with pytest.raises(NotReachable, match="start the engine"):
        Semaphore.open(names.server)


@pytest.mark.parametrize("wait", ["spin", "adaptive", "block"])
def test_a_wait_ends_at_its_limit_and_at_a_turn(names: Names, wait: str) -> None:
    semaphore = Semaphore.create(names.client, 0, wait)
    try:
        assert not semaphore.wait(0)
        assert not semaphore.wait(0.01)
        semaphore.post()
        assert semaphore.wait(0.01)
    finally:
        semaphores.unlink(names.client)
        semaphore.close()
