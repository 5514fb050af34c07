"""Engine and client find each other by names, and take turns, however the last client left."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.errors import Busy, ConfigError, NotReachable, RemoteProtocolError
from lucky_transport.process import unique_name
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.semaphores import Semaphore
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def names() -> Names:
    return Names(unique_name())


@pytest.fixture
def handshake(names: Names) -> Generator[EngineHandshake]:
    with closing(EngineHandshake(names, "block")) as made:
        yield made


@pytest.fixture
def ends(handshake: EngineHandshake, names: Names) -> Generator[tuple[Semaphore, Semaphore]]:
    """The semaphores of server and client, as the client opens them."""
    with closing(Semaphore.open(names.server)) as server, closing(Semaphore.open(names.client)) as client:
        yield server, client


@pytest.mark.parametrize("is_there", [True, False])
def test_the_engine_has_the_first_turn_and_announces_itself(names: Names, is_there: bool) -> None:
    """On a semaphore that the client made, where it did."""
    if is_there:
        Semaphore.create(names.loading, 0).close()
    with closing(EngineHandshake(names, "block")) as handshake:
        handshake.post_loading()
        handshake.post_loading()  # a client that came has not taken it yet
        found = [Semaphore.open(name) for name in (names.server, names.client, names.loading)]
        assert [each.value for each in found] == [1, 0, 1]
        for each in found:
            each.close()


def test_what_a_dead_engine_left_is_replaced(names: Names) -> None:
    for name, value in ((names.server, 3), (names.client, 4), (names.loading, 1)):
        Semaphore.create(name, value).close()
    with closing(EngineHandshake(names, "block")) as handshake:
        assert [handshake.wait(0) for _ in range(2)] == [True, False]
        assert not handshake.is_client_posted


def test_a_second_engine_under_the_same_uuid_is_refused(names: Names) -> None:
    with closing(EngineHandshake(names, "block")), pytest.raises(Busy, match="this process"):
        EngineHandshake(names, "block")
    EngineHandshake(names, "block").close()


def test_a_client_that_is_a_turn_ahead_comes_back_in_step(handshake: EngineHandshake, ends: Any) -> None:
    server, client = ends
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


def test_names_that_a_client_removed_are_made_anew(handshake: EngineHandshake, names: Names) -> None:
    assert handshake.wait(0)
    assert [handshake.is_first() for _ in range(2)] == [True, False]
    semaphores.unlink(names.server)
    assert not handshake.are_names_removed  # it is still at it
    semaphores.unlink(names.client)
    assert handshake.are_names_removed
    handshake.renew()
    assert not handshake.are_names_removed
    assert handshake.is_first()
    Semaphore.open(names.server).close()


def test_a_knock_ends_one_wait_and_is_no_turn(handshake: EngineHandshake, ends: Any) -> None:
    server, client = ends
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


def test_a_semaphore_that_is_not_there_is_not_reachable(names: Names) -> None:
    with pytest.raises(NotReachable, match="start the engine"):
        Semaphore.open(names.server)


@pytest.mark.parametrize("wait", ["spin", "adaptive", "block"])
def test_a_wait_ends_at_its_limit_and_at_a_turn(names: Names, wait: str) -> None:
    with closing(Semaphore.create(names.client, 0, wait)) as semaphore:
        assert not semaphore.wait(0)
        assert not semaphore.wait(0.01)
        semaphore.post()
        assert semaphore.wait(0.01)
        semaphores.unlink(names.client)


# names


@pytest.mark.parametrize("uuid", ["8ac7059c-fb71", ""])
def test_names_end_with_the_uuid(uuid: str) -> None:
    names = Names(uuid)
    assert names.loading == f"/HOLODECK_LOADING_SEM{uuid}"
    assert names.server == f"/HOLODECK_SEMAPHORE_SERVER{uuid}"
    assert names.client == f"/HOLODECK_SEMAPHORE_CLIENT{uuid}"
    assert names.block("RESET") == Path(f"/dev/shm/HOLODECK_MEM{uuid}_RESET")


@pytest.mark.parametrize("uuid", ["a/b", "../x", "a b", "x" * 101, "a\0"])
def test_a_uuid_that_is_no_part_of_a_file_name_is_refused(uuid: str) -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        Names(uuid)


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "a/b", "a\0b", "x" * 121])
def test_a_clients_agent_name_leads_to_no_other_directory(key: str) -> None:
    with pytest.raises(RemoteProtocolError):
        Names("u").block(key)
