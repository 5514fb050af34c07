"""Short fuzz runs; `tests.endurance.fuzz` plays the long ones."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from random import Random

import pytest

from lucky_transport.errors import TransportError
from lucky_transport.process import unique_name
from lucky_transport.shm.listener.connecting import connect_pipe
from tests.endurance.fuzz_envelopes import EnvelopeFuzz
from tests.endurance.fuzz_live import LiveFuzz
from tests.endurance.live_handshakes import Handshakes
from tests.support.waiting import PATIENCE_S, soon


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_envelopes_do_no_harm(seed: int) -> None:
    fuzz = EnvelopeFuzz(seed)
    fuzz.run(5000)
    assert sum(fuzz.seen.values()) == 5000
    for outcome in ("server: dropped", "server: taken", "server: answered", "client: dropped", "client: taken"):
        assert fuzz.seen[outcome] > 50


# living files


def test_no_mutation_of_any_mapped_file_ends_a_process_or_hangs_it() -> None:
    fuzz = LiveFuzz(seed=1, round_s=2)
    kinds = [f"{kind}: answer" for kind in ("steps", "calls", "streams", "images")]
    while not any(fuzz.seen[kind] for kind in kinds):  # on a busy machine one round may end before the first answer
        fuzz.run_for(1)
    assert fuzz.seen["mutated: segment"] > 10
    assert fuzz.mutations > 10


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
