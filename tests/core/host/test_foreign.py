"""Plugins' services in other messages, which are loaded at the first call that could be theirs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from lucky_transport.errors import ClosedError, Unimplemented
from lucky_transport.hookspecs import ForeignServicesInfo
from lucky_transport.host import foreign
from lucky_transport.host.foreign import InstalledServices
from lucky_transport.process import EngineProcess, unique_name


class Parrots:
    """Services of one method; `made` are all that exist."""

    made: ClassVar[list[Parrots]] = []

    def __init__(self, host: Any) -> None:
        self.left: list[str] = []
        self.closed = False
        self.made.append(self)

    def handler(self, path: str) -> Any:
        return (lambda call: call.answers.append("squawk")) if path == "/zoo.Parrot/Say" else None

    def leave(self, caller: str) -> None:
        self.left.append(caller)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> InstalledServices:
    """What is installed: a plugin whose package is missing, one that breaks, and the parrots."""
    infos = {
        name: ForeignServicesInfo(name, services, "", extra="grpc")
        for name, services in (
            ("absent", "no_module_of_this_name:Services"),
            ("broken", f"{__name__}:BROKEN"),
            ("parrots", f"{__name__}:Parrots"),
        )
    }
    monkeypatch.setattr(foreign, "registry", lambda: SimpleNamespace(foreign_services=infos))
    monkeypatch.setattr(Parrots, "made", [])
    host: Any = SimpleNamespace(spec=SimpleNamespace(engine="zoo"))
    return InstalledServices(host)


def ask(services: InstalledServices, path: str) -> list[str]:
    call: Any = SimpleNamespace(path=path, name=path, answers=[])
    handler = services.handler(path)
    assert handler is not None
    handler(call)
    return call.answers


def test_nothing_is_loaded_before_a_call_and_everything_once(services: InstalledServices) -> None:
    services.leave("client 7")
    assert Parrots.made == []
    assert [ask(services, "/zoo.Parrot/Say") for _ in range(2)] == [["squawk"], ["squawk"]]
    (parrots,) = Parrots.made
    services.leave("client 8")
    services.close()
    assert (parrots.left, parrots.closed) == (["client 8"], True)


def test_a_method_that_no_plugin_has_is_refused_by_the_first_call_and_not_found_by_the_next(
    services: InstalledServices,
) -> None:
    with pytest.raises(Unimplemented, match=r"the engine does not know /zoo\.Parrot/Sing"):
        ask(services, "/zoo.Parrot/Sing")
    assert services.handler("/zoo.Parrot/Sing") is None


def test_a_call_that_comes_while_the_engine_closes_loads_nothing(services: InstalledServices) -> None:
    services.close()
    with pytest.raises(ClosedError):
        ask(services, "/zoo.Parrot/Say")
    assert Parrots.made == []


@pytest.mark.exhaustive
def test_an_engine_over_shared_memory_starts_without_grpc() -> None:
    pytest.importorskip("grpc")
    process = EngineProcess("toy", [f"shm://{unique_name()}"])
    try:
        assert "cygrpc" not in Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.stop()
