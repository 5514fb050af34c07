"""What a switched program finds changed: grpc's channel factories, server credentials, and luckyrobots 0.5.0."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lucky_transport.config import Settings
from lucky_transport_stubs.run import patches
from lucky_transport_stubs.run.luckyrobots import patch_luckyrobots
from lucky_transport_stubs.run.switch import Switch
from tests.support.certificates import CERTIFICATE, KEY
from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc")

import grpc as real

from lucky_transport_stubs.staged import channels
from lucky_transport_stubs.words.credentials import why_no_port

TARGET = "127.0.0.1:50051"
#: What a channel over shared memory is told of it.
TOLD = ("lucky_transport.target", f"dns:///{TARGET}")
AUTHORITY = ("grpc.ssl_target_name_override", TARGET)
FACTORIES = ("insecure_channel", "secure_channel", "server")


def telling(kind: str, original: Any) -> Any:
    """Return a factory with the signature of grpc's, which says what it was given."""

    def factory(*args: Any, **named: Any) -> Any:
        return (kind, *args, *([named] if named else []))

    factory.__signature__ = inspect.signature(original)  # pyright: ignore[reportFunctionMemberAccess]
    factory.__doc__ = original.__doc__
    return factory


@pytest.fixture
def grpc(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with grpc's factories, which return what they were given, as do those over shared memory."""
    module = ModuleType("grpc")
    aio = SimpleNamespace(**{name: telling("grpc.aio", getattr(real.aio, name)) for name in FACTORIES})
    module.__dict__.update({name: telling("grpc", getattr(real, name)) for name in FACTORIES}, aio=aio)
    kinds = {"channel": "shm", "aio_channel": "shm.aio"}
    monkeypatch.setattr(patches, "_over_shm", lambda kind, endpoint, **kept: (kinds[kind], endpoint, kept))
    return module


def switched(grpc: Any, transport: str = "shm") -> Any:
    patches.patch(grpc, Switch(Settings(transport=transport, endpoint="shm://x"), quiet=True), None)
    return grpc


#: (call, what the channel is made by and of)
CHANNELS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "mapped": (lambda grpc: grpc.insecure_channel(TARGET), ("shm", "shm://x", {"options": (TOLD,)})),
    "bytes": (lambda grpc: grpc.insecure_channel(TARGET.encode()), ("shm", "shm://x", {"options": (TOLD,)})),
    "options": (
        lambda grpc: grpc.insecure_channel(TARGET, [("a", 1)], 2),
        ("shm", "shm://x", {"options": (("a", 1), TOLD), "compression": 2}),
    ),
    "interceptors": (
        lambda grpc: grpc.aio.insecure_channel(target=TARGET, interceptors=[1]),
        ("shm.aio", "shm://x", {"options": (TOLD,), "interceptors": [1]}),
    ),
    "credentials": (
        lambda grpc: grpc.secure_channel(TARGET, "secret", options=[("a", 1)]),
        ("shm", "shm://x", {"credentials": "secret", "options": (AUTHORITY, ("a", 1), TOLD)}),
    ),
    "credentials of asyncio": (
        lambda grpc: grpc.aio.secure_channel(TARGET, "secret", None),
        ("shm.aio", "shm://x", {"credentials": "secret", "options": (AUTHORITY, TOLD)}),
    ),
    "no credentials": (lambda grpc: grpc.secure_channel(TARGET, None), ("grpc", TARGET, None)),
    "no credentials of asyncio": (lambda grpc: grpc.aio.secure_channel(TARGET, None), ("grpc.aio", TARGET, None)),
    "elsewhere": (
        lambda grpc: grpc.insecure_channel("robot:1", compression=2),
        ("grpc", "robot:1", {"compression": 2}),
    ),
    "elsewhere with credentials": (
        lambda grpc: grpc.secure_channel("robot:1", "secret", ()),
        ("grpc", "robot:1", "secret", ()),
    ),
    "elsewhere of asyncio": (lambda grpc: grpc.aio.insecure_channel("robot:1"), ("grpc.aio", "robot:1")),
}


#: What is not mapped has no stages.
MADE = [("shm", name) for name in CHANNELS] + [("staged", name) for name in CHANNELS if "elsewhere" in name]


@pytest.mark.parametrize(("transport", "name"), MADE)
def test_a_channel_is_made_of_what_its_program_gave(grpc: Any, transport: str, name: str) -> None:
    make, made = CHANNELS[name]
    assert make(switched(grpc, transport)) == made


def test_a_factory_keeps_its_text_and_signature_and_is_patched_once(grpc: Any) -> None:
    before = switched(grpc).insecure_channel
    assert switched(grpc).insecure_channel is before
    assert before.__doc__ == real.insecure_channel.__doc__
    with pytest.raises(TypeError, match="target"):
        before()
    with pytest.raises(TypeError, match="nonsense"):
        before(TARGET, nonsense=1)


def test_a_staged_channel_of_asyncio_has_the_interceptors_in_front_and_blocking_shadows(
    grpc: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "open_aio_channel", lambda *parts: parts)
    made = switched(grpc, "staged").aio.insecure_channel(TARGET, compression=2, interceptors=[7])
    target, sides, shadows, counter_of, interceptors, options = made
    assert (target, counter_of, interceptors, options) == (TARGET, None, [7], None)
    given, kept = {"target": TARGET, "compression": 2}, {"options": (TOLD,), "compression": 2}
    assert sides == {"grpc": ("grpc.aio", given), "shm": ("shm.aio", "shm://x", kept)}
    made = {transport: make() for transport, make in shadows.items()}
    assert made == {"grpc": ("grpc", given), "shm": ("shm", "shm://x", kept)}


#: What is noted of the credentials that each of grpc's factories makes, by the arguments.
NOTED = {
    "ssl_server_credentials": (
        (([(KEY, CERTIFICATE)],), ""),
        (([(KEY, CERTIFICATE)], CERTIFICATE, True), "certificates"),
    ),
    "dynamic_ssl_server_credentials": (
        ((real.ssl_server_certificate_configuration([(KEY, CERTIFICATE)]), lambda: None), ""),
        ((real.ssl_server_certificate_configuration([(KEY, CERTIFICATE)]), lambda: None, True), "certificates"),
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
    assert why_no_port(real.local_server_credentials()) is None, "of another module's nothing is noted"


class Client:
    """luckyrobots' client with the defect: the stub is made when it is first touched, and the check does not."""

    _mujoco: Any = None
    connected = True

    @property
    def mujoco(self) -> Any:
        self._mujoco = self._mujoco or SimpleNamespace(GetMujocoInfo=lambda timeout: timeout)
        return self._mujoco

    def is_connected(self) -> bool:
        return self.connected

    def health_check(self, timeout: float | None = None) -> bool:
        """Say whether the engine answers."""
        try:
            self._mujoco.GetMujocoInfo(timeout)
        except Exception:
            return False
        return True


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Install a version of luckyrobots and import its client; returns the client's class."""

    def install(version: str) -> Any:
        metadata = tmp_path / f"luckyrobots-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: luckyrobots\nVersion: {version}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(Client, "health_check", Client.health_check)  # put back afterwards
        monkeypatch.setitem(sys.modules, "luckyrobots.client", SimpleNamespace(LuckyEngineClient=Client))
        return Client

    return install


def test_the_health_check_is_cured_once_and_said_once(install: Any, capfd: pytest.CaptureFixture[str]) -> None:
    client = install("0.5.0")
    assert not client().health_check()
    patch_luckyrobots()
    cured = client.health_check
    patch_luckyrobots()
    assert client.health_check is cured
    assert client().health_check(timeout=PATIENCE_S)
    assert cured.__doc__ == "Say whether the engine answers."
    assert capfd.readouterr().err.count("luckyrobots 0.5.0: its health check is cured") == 1
    idle = client()
    idle.connected = False
    assert not idle.health_check()
    assert idle._mujoco is None, "a client that is not connected makes no stub"


@pytest.mark.parametrize("version", ["0.4.0", "0.5.1", "1.0"])
def test_other_versions_are_left_alone(install: Any, version: str, capfd: pytest.CaptureFixture[str]) -> None:
    client = install(version)
    before = client.health_check
    patch_luckyrobots()
    assert client.health_check is before
    assert capfd.readouterr().err == ""


def test_a_program_without_luckyrobots_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "luckyrobots.client", raising=False)
    patch_luckyrobots()
