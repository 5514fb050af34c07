"""The health check of luckyrobots 0.5.0, and of no other version."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lucky_transport_stubs.run.patches import patch_luckyrobots
from tests.support.waiting import PATIENCE_S

Install = Callable[[str], Any]


def _package() -> ModuleType:
    """`luckyrobots.client` with the defect: the stub is made when it is first touched, and the check does not."""
    module = ModuleType("luckyrobots.client")

    class LuckyEngineClient:
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

    module.LuckyEngineClient = LuckyEngineClient  # pyright: ignore[reportAttributeAccessIssue]
    return module


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a version of the package and import its client; returns the client's class."""

    def install(version: str) -> Any:
        metadata = tmp_path / f"luckyrobots-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: luckyrobots\nVersion: {version}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        module = _package()
        monkeypatch.setitem(sys.modules, "luckyrobots.client", module)
        return module.LuckyEngineClient

    return install


def test_the_health_check_succeeds_from_then_on(install: Install) -> None:
    client = install("0.5.0")
    assert not client().health_check()
    patch_luckyrobots()
    assert client().health_check(timeout=PATIENCE_S)
    assert client.health_check.__doc__ == "Say whether the engine answers."


def test_a_client_that_is_not_connected_still_fails_it(install: Install) -> None:
    client = install("0.5.0")
    patch_luckyrobots()
    idle = client()
    idle.connected = False
    assert not idle.health_check()
    assert idle._mujoco is None


def test_it_is_cured_once_and_said_once(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    client = install("0.5.0")
    patch_luckyrobots()
    cured = client.health_check
    patch_luckyrobots()
    assert client.health_check is cured
    assert capfd.readouterr().err.count("luckyrobots 0.5.0: its health check is cured") == 1


@pytest.mark.parametrize("version", ["0.4.0", "0.5.1", "1.0"])
def test_other_versions_are_left_alone(install: Install, version: str, capfd: pytest.CaptureFixture[str]) -> None:
    client = install(version)
    before = client.health_check
    patch_luckyrobots()
    assert client.health_check is before
    assert capfd.readouterr().err == ""


def test_a_program_without_luckyrobots_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "luckyrobots.client", raising=False)
    patch_luckyrobots()
