"""A short fuzz of living files: the long one is `python -m tests.endurance.fuzz live --seconds 600`."""

from __future__ import annotations

import sys

import pytest

from lucky_transport.shm.atomics import native_error
from tests.endurance import fuzz_live
from tests.endurance.fuzz_live import LiveFinding, LiveFuzz

pytestmark = [
    pytest.mark.skipif(bool(native_error()), reason=native_error() or "native"),
    pytest.mark.timeout(300),
]


def test_no_mutation_of_any_mapped_file_ends_a_process_or_hangs_it() -> None:
    fuzz = LiveFuzz(seed=1, round_s=2)
    fuzz.run_for(1)
    assert fuzz.seen["rounds"] == 1
    assert fuzz.seen["mutated: segment"] > 10
    assert any(outcome.endswith(": answer") for outcome in fuzz.seen)


def test_a_process_that_ends_by_a_signal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    dying = "import os; print('ready', flush=True); os.kill(os.getpid(), 7)"
    monkeypatch.setattr(fuzz_live, "_COMMAND", (sys.executable, "-c", dying))
    with pytest.raises(LiveFinding, match="seed 1, round 1: the client ended with -7"):
        LiveFuzz(seed=1, round_s=2).run_for(1)


def test_a_process_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_live, "_PATIENCE_S", 0.5)
    hanging = "import signal, time; signal.signal(signal.SIGUSR1, print); print('ready', flush=True); time.sleep(600)"
    monkeypatch.setattr(fuzz_live, "_COMMAND", (sys.executable, "-c", hanging))
    with pytest.raises(LiveFinding, match="seed 1, round 1: the client hangs"):
        LiveFuzz(seed=1, round_s=0.5).run_for(0.1)
