"""grpc's channel factories under the switch."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lucky_transport.call_counts import CallCounters, Calls, read
from lucky_transport.config import Settings
from lucky_transport_stubs.run import patches
from lucky_transport_stubs.run.switch import Switch

pytest.importorskip("grpc")

import grpc as real

from lucky_transport_stubs.staged import channels
from lucky_transport_stubs.words.credentials import why_no_port
from tests.support.certificates import CERTIFICATE, KEY

TARGET = "127.0.0.1:50051"
#: What a channel over shared memory is told of it.
TOLD = ("lucky_transport.target", f"dns:///{TARGET}")


@pytest.fixture
def grpc() -> Any:
    """A module with grpc's factories, which return what they were given."""

    def insecure_channel(target: Any, options: Any = None, compression: Any = None) -> Any:
        """Creates an insecure Channel to a server."""
        return ("grpc", target, options, compression)

    def secure_channel(target: Any, credentials: Any, options: Any = None, compression: Any = None) -> Any:
        return ("grpc", target, credentials, options, compression)

    def aio_insecure(target: Any, options: Any = None, compression: Any = None, interceptors: Any = None) -> Any:
        return ("grpc.aio", target, options, compression, interceptors)

    def aio_secure(
        target: Any, credentials: Any, options: Any = None, compression: Any = None, interceptors: Any = None
    ) -> Any:
        return ("grpc.aio", target, credentials, options, compression, interceptors)

    def server(thread_pool: Any) -> Any:
        return ("grpc", thread_pool)

    def ssl_credentials(pairs: Any, root: Any = None, require_client_auth: bool = False) -> Any:
        return SimpleNamespace(pairs=pairs, root=root)

    module = ModuleType("grpc")
    aio = SimpleNamespace(insecure_channel=aio_insecure, secure_channel=aio_secure, server=server)
    module.__dict__.update(insecure_channel=insecure_channel, secure_channel=secure_channel, aio=aio)
    credentials = dict.fromkeys(("ssl_server_credentials", "dynamic_ssl_server_credentials"), ssl_credentials)
    module.__dict__.update(server=server, **credentials)
    return module


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels over shared memory that say what they were made of."""
    monkeypatch.setattr(patches, "_channel", lambda endpoint, **kept: ("shm", endpoint, kept))
    monkeypatch.setattr(patches, "_aio_channel", lambda endpoint, **kept: ("shm.aio", endpoint, kept))


def switched(grpc: Any, transport: str = "shm") -> Any:
    patches.patch(grpc, Switch(Settings(transport=transport, endpoint="shm://x"), quiet=True), None)
    return grpc


def test_a_mapped_target_gets_a_channel_over_shared_memory(grpc: Any) -> None:
    switched(grpc)
    assert grpc.insecure_channel(TARGET) == ("shm", "shm://x", {"options": (TOLD,)})
    kept = {"options": (("a", 1), TOLD), "compression": 2}
    assert grpc.insecure_channel(TARGET, [("a", 1)], 2) == ("shm", "shm://x", kept)
    kept = {"options": (TOLD,), "interceptors": [1]}
    assert grpc.aio.insecure_channel(target=TARGET, interceptors=[1]) == ("shm.aio", "shm://x", kept)


def test_a_channel_with_credentials_gets_them_and_the_authority_of_its_target(grpc: Any) -> None:
    switched(grpc)
    kept = {"credentials": "secret", "options": (("a", 1), TOLD, ("grpc.default_authority", TARGET))}
    assert grpc.secure_channel(TARGET, "secret", options=[("a", 1)]) == ("shm", "shm://x", kept)
    kept["options"] = (TOLD, ("grpc.default_authority", TARGET))
    assert grpc.aio.secure_channel(TARGET, "secret", None) == ("shm.aio", "shm://x", kept)


def test_a_secure_channel_without_credentials_is_left_to_grpc_to_refuse(grpc: Any) -> None:
    switched(grpc)
    assert grpc.secure_channel(TARGET, None) == ("grpc", TARGET, None, None, None)
    assert grpc.aio.secure_channel(TARGET, None) == ("grpc.aio", TARGET, None, None, None, None)


def test_every_other_target_gets_what_grpc_makes_of_the_same_arguments(grpc: Any) -> None:
    switched(grpc)
    assert grpc.insecure_channel("robot:1", compression=2) == ("grpc", "robot:1", None, 2)
    assert grpc.secure_channel("robot:1", "secret", ()) == ("grpc", "robot:1", "secret", (), None)
    assert grpc.aio.insecure_channel("robot:1") == ("grpc.aio", "robot:1", None, None, None)
    assert grpc.aio.secure_channel("robot:1", "secret") == ("grpc.aio", "robot:1", "secret", None, None, None)


def test_a_target_can_be_bytes_as_in_grpc(grpc: Any) -> None:
    assert switched(grpc).insecure_channel(TARGET.encode()) == ("shm", "shm://x", {"options": (TOLD,)})


def test_a_factory_keeps_its_name_text_and_signature(grpc: Any) -> None:
    switched(grpc)
    assert grpc.insecure_channel.__name__ == "insecure_channel"
    assert grpc.insecure_channel.__doc__ == "Creates an insecure Channel to a server."
    with pytest.raises(TypeError, match="target"):
        grpc.insecure_channel()
    with pytest.raises(TypeError, match="nonsense"):
        grpc.insecure_channel(TARGET, nonsense=1)


def test_patching_twice_patches_once(grpc: Any) -> None:
    before = switched(grpc).insecure_channel
    assert switched(grpc).insecure_channel is before


def test_the_transport_grpc_switches_nothing(grpc: Any) -> None:
    assert switched(grpc, "grpc").insecure_channel(TARGET) == ("grpc", TARGET, None, None)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What staged channels would be made of, in the order of their making."""
    made: list[tuple[Any, ...]] = []

    def remember(*parts: Any) -> int:
        made.append(parts)
        return len(made)

    monkeypatch.setattr(channels, "open_channel", remember)
    monkeypatch.setattr(channels, "open_aio_channel", remember)
    return made


def test_a_staged_channel_is_made_of_what_both_factories_make(grpc: Any, opened: list[tuple[Any, ...]]) -> None:
    switched(grpc, "staged")
    assert grpc.secure_channel(TARGET, "secret", options=()) == 1
    ((target, sides, shadows, counter_of, options),) = opened
    assert (target, counter_of, options) == (TARGET, None, ())
    kept = {"credentials": "secret", "options": (TOLD, ("grpc.default_authority", TARGET))}
    assert sides == {"grpc": ("grpc", TARGET, "secret", (), None), "shm": ("shm", "shm://x", kept)}
    assert {transport: make() for transport, make in shadows.items()} == sides


def test_a_staged_channel_of_asyncio_has_the_interceptors_in_front_and_blocking_shadows(
    grpc: Any, opened: list[tuple[Any, ...]]
) -> None:
    switched(grpc, "staged")
    assert grpc.aio.insecure_channel(TARGET, compression=2, interceptors=[7]) == 1
    ((_, sides, shadows, _, interceptors, _),) = opened
    kept = {"options": (TOLD,), "compression": 2}
    assert sides == {"grpc": ("grpc.aio", TARGET, None, 2, None), "shm": ("shm.aio", "shm://x", kept)}
    assert {transport: make() for transport, make in shadows.items()} == {
        "grpc": ("grpc", TARGET, None, 2),
        "shm": ("shm", "shm://x", kept),
    }
    assert interceptors == [7]


def test_targets_beyond_the_map_are_not_staged(grpc: Any, opened: list[tuple[Any, ...]]) -> None:
    assert switched(grpc, "staged").insecure_channel("robot:1") == ("grpc", "robot:1", None, None)
    assert opened == []


def test_calls_of_a_staged_channel_are_counted_by_the_way_that_they_take(
    grpc: Any, opened: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    counters = CallCounters(tmp_path)
    patches.patch(grpc, Switch(Settings(transport="staged", endpoint="shm://x"), quiet=True), counters)
    grpc.insecure_channel(TARGET)
    count = opened[0][3]
    for transport in ("grpc", "shm", "shm"):
        count(transport, "/t.T/Echo")
    (process,) = read(tmp_path)
    assert process.calls == [
        Calls(TARGET, "", "the stage of the method", "/t.T/Echo", 1),
        Calls(TARGET, "shm://x", "", "/t.T/Echo", 2),
    ]


def test_without_counters_channels_are_what_grpc_made(grpc_port: int, tmp_path: Path) -> None:
    """A process that does not count gets the very object, not a wrapper of it."""
    module = ModuleType("grpc")
    factories = ("insecure_channel", "secure_channel", "server")
    credentials = ("ssl_server_credentials", "dynamic_ssl_server_credentials")
    aio = SimpleNamespace(**{name: getattr(real.aio, name) for name in factories})
    module.__dict__.update({name: getattr(real, name) for name in (*factories, *credentials)}, aio=aio)
    plain = real.insecure_channel(f"localhost:{grpc_port}")
    with switched(module).insecure_channel(f"localhost:{grpc_port}") as channel:
        assert type(channel) is type(plain)
    plain.close()


#: What is noted of the credentials that each of grpc's factories makes, by the arguments.
NOTED = {
    "ssl_server_credentials": (
        (([(KEY, CERTIFICATE)],), ""),
        (([(KEY, CERTIFICATE)], CERTIFICATE, True), "certificates"),
    ),
    "local_server_credentials": (((), ""),),
    "insecure_server_credentials": (((), ""),),
    "alts_server_credentials": (((), "a service account (ALTS)"),),
    "xds_server_credentials": (((real.insecure_server_credentials(),), "what xDS says"),),
}


@pytest.mark.parametrize("factory", NOTED)
def test_server_credentials_are_noted_with_what_they_demand(factory: str, grpc: Any) -> None:
    setattr(grpc, factory, getattr(real, factory))
    switched(grpc)
    for arguments, asked in NOTED[factory]:
        refusal = why_no_port(getattr(grpc, factory)(*arguments))
        assert refusal == "" if not asked else asked in (refusal or "")


def test_nothing_is_noted_of_other_server_credentials() -> None:
    assert why_no_port(real.local_server_credentials()) is None
    assert why_no_port("none at all") is None
