"""Names, semaphores and blocks by which engine and client meet, however the last client left."""

import mmap
import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.errors import Busy, ConfigError, NotReachable, RemoteProtocolError, SegmentError
from lucky_transport.process import unique_name
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.blocks import BlockFiles, map_block
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.semaphores import Semaphore, unlink
from tests.support.foreign_files import KINDS, MakeForeignFile, foreign_uid
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


@pytest.fixture
def files() -> Generator[BlockFiles]:
    made = BlockFiles(Names(unique_name()))
    yield made
    made.unlink()
    made.names.block("x").unlink(missing_ok=True)  # where it was made by an array alone


def test_a_block_that_an_engine_has_made_larger_is_not_cut_under_it(files: BlockFiles) -> None:
    """HoloOcean's engine gives a lidar a larger block than its client does, and goes on with it for the next client."""
    path = files.names.block("x")
    engine = map_block(path, "uint8", (3 * mmap.PAGESIZE,))
    client = map_block(path, "uint8", (mmap.PAGESIZE,))
    assert os.stat(path).st_size == 3 * mmap.PAGESIZE
    engine[0] = 7
    assert client[0] == 7
    assert map_block(path, "uint8", (4 * mmap.PAGESIZE,)).size == os.stat(path).st_size


def test_a_new_block_holds_zeros(files: BlockFiles) -> None:
    map_block(files.names.block("x"), "float32", (3,))[:] = 5
    files.open("x", 12).close()
    assert not map_block(files.names.block("x"), "float32", (3,)).any()


def test_what_a_client_cut_off_is_zeros_for_the_engine(files: BlockFiles) -> None:
    block = map_block(files.names.block("x"), "uint8", (8,))
    file = files.open("x", 8)
    block[:] = 9
    assert file.read() == b"\x09" * 8
    os.truncate(file.path, 3)
    assert file.read() == b"\x09" * 3 + b"\0" * 5
    room = np.full(8, 1, np.uint8)
    file.read_into(room.data)
    assert room.tolist() == [9, 9, 9, 1, 1, 1, 1, 1]
    file.write(b"\x05" * 8)
    assert file.read() == b"\x05" * 8
    file.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_or_semaphore_of_another_user_is_refused_and_left_alone(
    kind: str, files: BlockFiles, make_foreign_file: MakeForeignFile
) -> None:
    block, name = files.names.block("x"), files.names.server
    semaphore = Names.file_of(name)
    try:
        for path in (block, semaphore):
            make_foreign_file(path, kind, b"\0" * 64)
        for use in (
            lambda: map_block(block, "uint8", (8,)),
            lambda: files.open("x", 8),
            lambda: Semaphore.create(name, 0),
            lambda: Semaphore.open(name),
            lambda: Semaphore.open_or_create(name),
        ):
            with pytest.raises(SegmentError, match=f"of user {foreign_uid()}"):
                use()
        files.unlink()
        unlink(name)
        assert block.lstat().st_uid == semaphore.lstat().st_uid == foreign_uid()
    finally:
        for path in (block, semaphore):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_block_that_the_original_made_with_its_own_mode_is_used(files: BlockFiles) -> None:
    path = files.names.block("x")
    path.write_bytes(b"\x05" * 8)
    path.chmod(0o755)
    assert files.open("x", 8).read() == b"\x05" * 8
