"""The ways to an engine by name, and engines started on them."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from lucky_transport.errors import ConfigError, SpecError, TransportError, UnknownName
from lucky_transport.hookspecs import TransportInfo
from lucky_transport.registry import registry
from lucky_transport_migration.paths import ConnectedEngine, Path, find_path, label, open_links


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_legacy_grpc_and_the_batch_service_are_one_transport_with_different_options() -> None:
    pytest.importorskip("grpc")
    legacy, batch = find_path("grpc"), find_path("grpc-batch")
    assert legacy.transport == batch.transport == "grpc"
    assert legacy.options != batch.options


def test_any_transport_of_the_registry_is_a_path() -> None:
    assert find_path("inproc") == Path("inproc", "inproc")


def test_an_unknown_path_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"known: .*inproc"):
        find_path("carrier-pigeon")


def test_a_transport_that_cannot_start_an_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    info = TransportInfo("remote", ("remote",), "a:b", "a:b", "a test")
    monkeypatch.setitem(registry().transports, "remote", info)
    with pytest.raises(ConfigError, match="cannot start an engine by itself"):
        find_path("remote")


def test_labels_are_words_and_unknown_paths_keep_their_name() -> None:
    assert label("grpc") == "legacy gRPC"
    assert label("pigeon") == "pigeon"


def test_a_link_ends_its_engine_process() -> None:
    with ConnectedEngine(find_path("shm"), "toy", 2, seed=0) as link:
        assert link.pid is not None
        assert alive(link.pid)
        assert link.transport.step(link.transport.actions).seq == 1
    assert not alive(link.pid)
    link.close()


def test_when_one_link_fails_the_others_are_closed() -> None:
    paths = [find_path("inproc"), find_path("shm")]
    started: list[ConnectedEngine] = []

    def start(path: Path) -> ConnectedEngine:
        link = ConnectedEngine(path, "toy", 1, options={} if path.name == "shm" else {"obs_size": 0})
        started.append(link)
        return link

    with pytest.raises(TransportError, match="obs_size"), ExitStack() as stack:
        open_links(stack, paths, start)
    (link,) = started
    assert link.pid is not None
    assert not alive(link.pid)


def test_an_engine_that_cannot_start_is_reported_with_its_own_words() -> None:
    with pytest.raises(SpecError, match="obs_size 0"):
        ConnectedEngine(find_path("shm"), "toy", 1, options={"obs_size": 0})
