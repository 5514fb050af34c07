"""Where a listener's socket lies: private, of one living engine or one group, and cleaned up after the dead."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    NotReachable,
    SegmentError,
)
from lucky_transport.shm.files import server_description
from lucky_transport.shm.files.server_description import ServerDescription
from lucky_transport.shm.files.socket_path import private_directory, remove_stale_sockets, socket_path, sockets_of
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from tests.core.shm.knocking import advance_until, knock
from tests.support.waiting import soon

pytestmark = pytest.mark.usefixtures("no_descriptor_left")


DEAD_ENGINE = """
import sys
from pathlib import Path
from lucky_transport.shm.listener.listener import Listener
listening = Listener("demo", directory=Path(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


def test_the_socket_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with Listener("demo", directory=tmp_path / "run") as listener:
        assert stat.S_IMODE(listener.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(listener.path.parent.stat().st_mode) == 0o700
    assert list((tmp_path / "run").iterdir()) == []
    listener.close()
    with pytest.raises(ClosedError, match="is closed"):
        listener.advance()


def test_a_living_engines_socket_is_refused(listener: Listener) -> None:
    with pytest.raises(Busy, match=f"the engine of pid {os.getpid()} listens at {listener.path}; use another name"):
        Listener("demo", directory=listener.path.parent)
    assert listener.path.exists()


def test_listeners_of_a_group_share_a_name_and_a_client_finds_each(tmp_path: Path) -> None:
    found: set[Path] = set()
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(Listener("demo", directory=tmp_path, group="port 1")) for _ in range(3)]
        assert len({listener.path for listener in listeners}) == 3
        for _ in range(200):
            found.add(next(sockets_of(tmp_path, "demo")))
        assert found == {listener.path for listener in listeners}
    assert list(tmp_path.iterdir()) == []


def test_a_name_belongs_to_one_group_or_to_one_listener(tmp_path: Path) -> None:
    of_a_group = Listener("demo", directory=tmp_path, group="port 1")
    for group in ("port 2", ""):
        with pytest.raises(Busy, match=f"the engine of pid {os.getpid()} listens at"):
            Listener("demo", directory=tmp_path, group=group)
    with Listener("demo_2", directory=tmp_path):
        of_a_group.close()
    with Listener("demo", directory=tmp_path), pytest.raises(Busy):
        Listener("demo", directory=tmp_path, group="port 1")
    assert list(tmp_path.iterdir()) == []


def test_of_a_group_only_those_that_live_are_found(tmp_path: Path, start: Callable[..., Any]) -> None:
    engine = start(DEAD_ENGINE.replace("directory=", "group='port 1', directory="), tmp_path)
    assert engine.stdout.readline() == "listening\n"
    with Listener("demo", directory=tmp_path, group="port 1") as listener:
        engine.kill()
        engine.wait()
        pipes: list[MemfdPipe] = []
        connecting = threading.Thread(
            target=lambda: pipes.extend(connect_pipe("demo", soon(), directories=[tmp_path]) for _ in range(20))
        )
        connecting.start()
        served = advance_until(listener, lambda: len(pipes) == 20)
        connecting.join()
        for pipe in (*pipes, *served):
            pipe.close()
        with Listener("demo", directory=tmp_path, group="port 1") as replacing:
            assert len(list(tmp_path.glob("*.sock"))) == 2
            assert replacing.path != listener.path


@pytest.mark.exhaustive
def test_another_processs_socket_is_refused_while_it_lives_and_replaced_afterwards(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    engine = start(DEAD_ENGINE, tmp_path)
    assert engine.stdout.readline() == "listening\n"
    with pytest.raises(Busy, match=f"the engine of pid {engine.pid} listens"):
        Listener("demo", directory=tmp_path)
    engine.kill()
    engine.wait()
    assert socket_path(tmp_path, "demo").exists()
    with pytest.raises(NotReachable):
        connect_pipe("demo", Deadline(0), directories=[tmp_path])
    with Listener("demo", directory=tmp_path) as listener:
        knock(listener.path).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_dead_engines_sockets_can_be_cleaned_up_and_nothing_else(tmp_path: Path, start: Callable[..., Any]) -> None:
    engine = start(DEAD_ENGINE, tmp_path)
    assert engine.stdout.readline() == "listening\n"
    (tmp_path / "file.sock").touch()
    with Listener("mine", directory=tmp_path):
        assert remove_stale_sockets([tmp_path, tmp_path / "missing"]) == []
        engine.kill()
        engine.wait()
        assert remove_stale_sockets([tmp_path]) == [tmp_path / "demo.sock"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file.sock", "mine.sock", "mine.sock.lock"]


def test_a_description_goes_whose_socket_is_gone_too_unless_its_engine_lives(tmp_path: Path) -> None:
    with Listener("mine", directory=tmp_path) as living:
        for path in (living.path, tmp_path / "gone.sock"):
            server_description.describe(path, ServerDescription("mine", os.getpid())._asdict())
        living.path.unlink()
        assert remove_stale_sockets([tmp_path]) == [tmp_path / "gone.sock"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.sock.json", "mine.sock.lock"]


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo.sock").write_text("mine")
    with pytest.raises(SegmentError, match="exists and is no socket; use another name"):
        Listener("demo", directory=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["demo.sock"]


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"not a directory that only you can enter \(owner \d+, mode 0755\); .*chmod"):
        private_directory(tmp_path / "open")
    with pytest.raises(ConfigError, match="not a directory that only you can enter"):
        private_directory(tmp_path / "link")
    with pytest.raises(ConfigError, match="cannot be used for sockets"):
        private_directory(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be used for sockets"):
        private_directory(tmp_path / "no" / "where")


@pytest.mark.parametrize("length", [1, 80, 200])
def test_a_name_of_any_length_has_a_socket_that_can_be_bound(tmp_path: Path, length: int) -> None:
    with Listener("n" * length, directory=tmp_path) as listener:
        knock(listener.path).close()
        assert listener.path == socket_path(tmp_path, "n" * length)
    assert socket_path(tmp_path, "n" * 200) != socket_path(tmp_path, "n" * 199 + "m")


def test_a_directory_too_deep_for_sockets_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 107 bytes; set XDG_RUNTIME_DIR"):
        socket_path(Path("/" + "deep/" * 30), "demo")
