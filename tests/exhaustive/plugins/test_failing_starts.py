"""A `serve` that fails leaves nothing, whichever step of it fails, and can be tried again at once."""

import errno
import gc
import importlib.util
import json
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError, NotReachable, TransportError
from lucky_transport.shm.files.lockfile import DIRECTORY
from tests.plugins.failing_starts import no_threads
from tests.support.command import python, stdout_of
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
HAS_OPENENV = importlib.util.find_spec("uvicorn") is not None


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime directory whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def failures(runtime: Path, fault: str, prefix: str, engine: str, *endpoints: str) -> list[dict[str, Any]]:
    """Return what `tests.plugins.failing_starts` prints."""
    command = ("-m", "tests.plugins.failing_starts", fault, prefix, engine, *endpoints)
    environ = os.environ | {"XDG_RUNTIME_DIR": str(runtime)}
    printed = stdout_of(python(*command, cwd=ROOT, env=environ, timeout=6 * PATIENCE_S))
    return [json.loads(line) for line in printed.splitlines()]


#: Engine, endpoints ({}: a prefix of this test alone), and at least how many steps of the start each fault strikes.
CASES: list[tuple[str, str, str, int]] = [
    ("no_descriptors", "toy", "shm://{}a", 6),
    ("no_threads", "toy", "shm://{}a", 2),
    ("no_memory", "toy", "shm://{}a", 1),
    ("no_descriptors", "toy", "holodeck://{}u", 1),
    ("no_threads", "toy", "holodeck://{}u", 1),
    ("no_threads", "cartpole", "pipe://{}p", 1),
    ("no_threads", "toy", "openenv://127.0.0.1:0", 1),
    ("no_descriptors", "toy", "shm://{}a holodeck://{}u shm://{}b inproc://{}i", 12),
    ("no_threads", "cartpole", "shm://{}a pipe://{}p shm://{}b", 5),
    ("no_memory", "toy", "shm://{}a shm://{}b", 2),
    ("interrupts", "toy", "shm://{}a shm://{}b", 4),
    ("interrupts", "toy", "holodeck://{}u", 1),
    ("interrupts", "cartpole", "pipe://{}p", 1),
]


@pytest.mark.parametrize(("fault", "engine", "endpoints", "steps"), CASES, ids=str)
def test_nothing_is_left_whichever_step_fails(
    runtime: Path, fault: str, engine: str, endpoints: str, steps: int
) -> None:
    if endpoints.startswith("openenv") and not HAS_OPENENV:
        pytest.skip("OpenEnv is not installed: pip install 'lucky-transport[openenv]'")
    prefix = f"lucky_fs{os.getpid()}"
    found = failures(runtime, fault, prefix, engine, *endpoints.format(*[prefix] * 4).split())
    assert len(found) >= steps, found
    for failure in found:
        assert failure["is_typed"] or fault == "interrupts", failure
        assert failure["after"] == failure["before"], failure
        assert failure["again"] == "", failure
        if (fault, endpoints) == ("no_descriptors", "shm://{}a"):
            assert re.search("too many open files, the limit is .*ulimit -n", failure["error"]), failure


@pytest.mark.parametrize(
    ("folder", "mode", "why"), [("r", 0o777, "only you can enter"), ("d" * 100, 0o700, "107 bytes")]
)
def test_a_runtime_directory_that_is_refused_leaves_no_segment(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, folder: str, mode: int, why: str
) -> None:
    private = runtime / folder / "lucky_transport"
    private.mkdir(parents=True)
    private.chmod(mode)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private.parent))
    name = f"lucky_fsr{os.getpid()}"
    with pytest.raises(ConfigError, match=why):
        api.serve("toy", f"shm://{name}")
    assert not list(DIRECTORY.glob(f"{name}*"))


def _few_descriptors(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "create_server" if scheme == "openenv" else "socket", refuse)


@pytest.mark.parametrize(
    ("scheme", "fault", "why"),
    [
        *((scheme, "threads", "no thread can be started") for scheme in ("grpc", "openra")),
        *((scheme, "descriptors", "(?i)too many open files.*ulimit -n") for scheme in ("grpc", "openra", "openenv")),
    ],
)
def test_what_is_refused_leaves_the_port_free_while_the_error_is_held(
    scheme: str, fault: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme == "openenv" and not HAS_OPENENV:
        pytest.skip("OpenEnv is not installed: pip install 'lucky-transport[openenv]'")
    pytest.importorskip("grpc")
    endpoint = f"{scheme}://127.0.0.1:{free_port()}"
    with monkeypatch.context() as patched, no_threads(0) if fault == "threads" else nullcontext():
        if fault == "descriptors":
            _few_descriptors(patched, scheme)
        with pytest.raises(NotReachable, match=why) as held:
            api.serve("toy", endpoint)
    api.serve("toy", endpoint).stop()
    del held


def test_a_socket_file_that_cannot_be_protected_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = pytest.importorskip("lucky_transport_grpc.address")
    path = tmp_path / "engine.sock"

    def refuse(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(address.os, "chmod", refuse)
    with pytest.raises(PermissionError):
        api.serve("toy", f"grpc+unix://{path}")
    monkeypatch.undo()
    assert not path.exists()
    api.serve("toy", f"grpc+unix://{path}").stop()


def test_options_that_the_bridge_refuses_leave_the_port_free_while_the_error_is_held() -> None:
    pytest.importorskip("grpc")
    port = free_port()
    with pytest.raises(TransportError, match="nosuch"):
        api.serve("skirmish", f"openra://127.0.0.1:{port}?map=nosuch")
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_name_that_is_taken_stays_with_the_one_that_has_it() -> None:
    name = f"inproc://lucky_fst{os.getpid()}"
    with api.serve("toy", name):
        with pytest.raises(NotReachable, match="is taken"):
            api.serve("toy", name)
        api.open_transport(name).close()


def test_a_failed_start_needs_no_collector_to_let_go() -> None:
    name = f"lucky_fsg{os.getpid()}"
    gc.collect()
    gc.disable()
    try:
        with no_threads(0), pytest.raises(NotReachable):
            api.serve("toy", f"shm://{name}")
        mapped = Path("/proc/self/maps").read_text()
    finally:
        gc.enable()
    assert name not in mapped
