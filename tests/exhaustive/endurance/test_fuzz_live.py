"""A short fuzz of living files: the long one is `python -m tests.endurance.fuzz live --seconds 600`."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from random import Random

import numpy as np
import pytest

from lucky_transport.errors import TransportError
from lucky_transport.process import unique_name
from lucky_transport.shm.listener.connecting import connect_pipe
from tests.endurance import fuzz_live
from tests.endurance.fuzz_live import LiveFinding, LiveFuzz
from tests.endurance.live_handshakes import Handshakes
from tests.endurance.live_peers import LiveClients
from tests.endurance.workloads import WrongAnswer
from tests.support.waiting import PATIENCE_S, soon

pytestmark = []


def test_no_mutation_of_any_mapped_file_ends_a_process_or_hangs_it() -> None:
    fuzz = LiveFuzz(seed=1, round_s=2)
    fuzz.run_for(1)
    assert fuzz.seen["rounds"] == 1
    assert fuzz.seen["mutated: segment"] > 10
    assert fuzz.mutations > 10
    assert any(outcome.endswith(": answer") for outcome in fuzz.seen)


def test_an_answer_that_is_not_right_is_found_where_no_content_was_rewritten() -> None:
    rewritten, exact = LiveClients("", 0, is_exact=False), LiveClients("", 0, is_exact=True)
    for clients in (rewritten, exact):
        clients.expect("step", np.ones(2), np.ones(2))
    rewritten.expect("step", np.ones(2), np.zeros(2))
    assert rewritten.seen == {"step: rewritten": 1}
    with pytest.raises(WrongAnswer, match="step: array"):
        exact.expect("step", np.ones(2), np.zeros(2))


def test_a_client_refuses_every_answer_that_no_engine_gives() -> None:
    name, seen = unique_name(), Counter[str]()
    with closing(Handshakes(name, Random(1), seen)) as handshakes, ThreadPoolExecutor(1) as client:
        for _ in range(40):
            refused = client.submit(connect_pipe, f"{name}_false", soon(), answer_s=PATIENCE_S)
            while not refused.done():
                handshakes.exchange()
                wait([refused], 0.001)
            assert isinstance(refused.exception(), TransportError), refused.exception()
    assert seen["mutated: answer"] >= 40


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
