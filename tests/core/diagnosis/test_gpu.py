"""The check of the CUDA driver: none is no fault, one that does not work is a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis import machine
from lucky_transport.diagnosis.check import CheckStatus, Roots
from lucky_transport.errors import DeviceError
from tests.support.fake_cuda import FakeDriver


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """Those of a machine with NVIDIA's kernel driver."""
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    return Roots(proc=tmp_path)


def test_a_machine_without_a_driver_is_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libcuda, "LIBRARY", str(tmp_path / "libcuda.so.1"))
    libcuda.forget_driver()
    row = machine.cuda_driver(Roots(proc=tmp_path))
    assert (row.name, row.verdict) == ("gpu", CheckStatus.OK)
    assert "no CUDA driver" in row.seen


def test_a_driver_is_shown_with_its_devices(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libcuda, "load_driver", lambda: FakeDriver(devices=2))
    row = machine.cuda_driver(roots)
    assert row.verdict is CheckStatus.OK
    assert "12.4" in row.seen
    assert "1: Fake GPU 1" in row.seen


@pytest.mark.parametrize("hint", ["mend it", ""])
def test_a_driver_that_does_not_work_is_a_warning_with_a_remedy(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, hint: str
) -> None:
    def load() -> FakeDriver:
        raise DeviceError("cuInit failed: CUDA_ERROR_NO_DEVICE", hint=hint)

    monkeypatch.setattr(libcuda, "load_driver", load)
    row = machine.cuda_driver(roots)
    assert row.verdict is CheckStatus.WARN
    assert "CUDA_ERROR_NO_DEVICE" in row.seen
    assert row.remedy
