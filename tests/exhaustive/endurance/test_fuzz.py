"""Short fuzz runs, and proof that they would see what they look for; `tests.endurance.fuzz` plays the long ones."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from random import Random
from typing import Any

import pytest

from lucky_transport.errors import TransportError
from lucky_transport.process import unique_name
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.shm.listener.connecting import connect_pipe
from tests.endurance import fuzz_live
from tests.endurance.fuzz_envelopes import EnvelopeFuzz
from tests.endurance.fuzz_live import LiveFuzz
from tests.endurance.live_handshakes import Handshakes
from tests.endurance.live_peers import LiveClients
from tests.endurance.workloads import WrongAnswer
from tests.support.waiting import PATIENCE_S, soon


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_envelopes_do_no_harm(seed: int) -> None:
    fuzz = EnvelopeFuzz(seed)
    fuzz.run(5000)
    assert sum(fuzz.seen.values()) == 5000
    for outcome in ("server: dropped", "server: taken", "server: answered", "client: dropped", "client: taken"):
        assert fuzz.seen[outcome] > 50


def test_the_same_seed_plays_the_same_rounds() -> None:
    one, other = EnvelopeFuzz(7), EnvelopeFuzz(7)
    one.run(500)
    other.run(500)
    assert one.seen == other.seen


def test_anything_but_a_typed_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Any, fragment: Any) -> None:
        raise IndexError("read beyond the end")

    monkeypatch.setattr(ServerCalls, "_on_fragment", crash)
    with pytest.raises(match=r"seed 1, round \d+: IndexError: read beyond the end; record [0-9a-f]+"):
        EnvelopeFuzz(1).run(2000)


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    post = ServerCalls.post_payload
    monkeypatch.setattr(ServerCalls, "post_payload", lambda self, call, kind, answer: post(self, call, kind, b"wrong"))
    with pytest.raises(match="an honest request got"):
        EnvelopeFuzz(1).run(2000)


# living files


def test_no_mutation_of_any_mapped_file_ends_a_process_or_hangs_it() -> None:
    fuzz = LiveFuzz(seed=1, round_s=2)
    fuzz.run_for(1)
    assert fuzz.seen["rounds"] == 1
    assert fuzz.seen["mutated: segment"] > 10
    assert fuzz.mutations > 10
    assert any(fuzz.seen[f"{kind}: answer"] for kind in ("steps", "calls", "streams", "images"))


def test_an_answer_that_is_not_right_is_found_where_no_content_was_rewritten() -> None:
    def be_wrong() -> None:
        raise WrongAnswer("an item of a stream")

    rewritten, exact = (LiveClients("", 0, is_exact=is_exact) for is_exact in (False, True))
    assert not rewritten.attempt("streams", be_wrong)
    assert rewritten.seen == {"streams: rewritten": 1}
    with pytest.raises(WrongAnswer, match="an item of a stream"):
        exact.attempt("streams", be_wrong)


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
    with pytest.raises(match="seed 1, round 1: the client ended with -7"):
        LiveFuzz(seed=1, round_s=2).run_for(1)


def test_a_process_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_live, "_PATIENCE_S", 0.5)
    hanging = "import signal, time; signal.signal(signal.SIGUSR1, print); print('ready', flush=True); time.sleep(600)"
    monkeypatch.setattr(fuzz_live, "_COMMAND", (sys.executable, "-c", hanging))
    with pytest.raises(match="seed 1, round 1: the client hangs"):
        LiveFuzz(seed=1, round_s=0.5).run_for(0.1)
