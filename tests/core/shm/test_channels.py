"""Channels and words: what either side of an exchange publishes, waits for and refuses."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lucky_transport import native
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.segment.channel import ActionFormat, ChannelOffsets, Result
from lucky_transport.shm.wait import PEER_WAKES
from tests.support.sleeps import slept_ns
from tests.support.waiting import PATIENCE_S, beside, call_later, until

FRAME, STATUS, ACTION, HEARTBEAT, PARK_ENGINE, PARK_FRAME, COMMANDS = 0, 8, 128, 256, 384, 512, 640
ACTIONS, CONTROL, TERMINATED, TRUNCATED = 1024, 2048, 2112, 2176
ENVS, SIZE = 3, 2
WORDS = (FRAME, STATUS, ACTION, HEARTBEAT, PARK_ENGINE, PARK_FRAME, COMMANDS)
OFFSETS = ChannelOffsets(*WORDS, ACTIONS, CONTROL, TERMINATED, TRUNCATED, ENVS)
SECOND_NS = 1_000_000_000
STILL = np.zeros((ENVS, SIZE), np.float32)


def a_client(
    mapping: mmap,
    *,
    shape: tuple[int, ...] = (ENVS, SIZE),
    code: str = "f",
    low: float | None = -1.0,
    high: float | None = 1.0,
    strategy: int = 1,
    **offsets: int,
) -> native.ClientChannel:
    actions = ActionFormat(shape, code, low, high)
    return native.ClientChannel(mapping, OFFSETS._replace(**offsets), actions, strategy=strategy, peer=PEER_WAKES)


def an_engine(mapping: mmap, strategy: int = 1) -> native.EngineChannel:
    engine = native.EngineChannel(mapping, OFFSETS, strategy=strategy)
    engine.set_peer(PEER_WAKES)
    return engine


@pytest.fixture
def mapping() -> mmap:
    return mmap(-1, 4096)


Ends = tuple[native.ClientChannel, native.EngineChannel]


@pytest.fixture
def ends(mapping: mmap) -> Ends:
    """A client and an engine over one mapping."""
    return a_client(mapping), an_engine(mapping)


@pytest.mark.parametrize("at", [TERMINATED, TERMINATED + 2, TRUNCATED + 1])
def test_any_ended_env_is_reported_with_the_frame(mapping: mmap, ends: Ends, at: int) -> None:
    client, engine = ends
    client.send(STILL, None)
    engine.next(0)
    mapping[at] = 255  # a hostile "true"
    engine.publish(0)
    assert client.recv(0) == Result.FRAME_ENDED


@pytest.mark.parametrize(
    ("actions", "control", "result"),
    [
        *(
            (actions, None, Result.UNFIT_ACTIONS)
            for actions in (
                np.zeros((3, 3), np.float32),
                np.zeros((2, 3), np.float32),
                np.zeros(6, np.float32),
                np.zeros((3, 2), np.float64),
                np.zeros((3, 2), np.int32),
                np.zeros((3, 4), np.float32)[:, ::2],
                np.frombuffer(bytes(25), np.float32, 6, 1).reshape(3, 2),
                [[0.0, 0.0]] * 3,
                "no array",
                None,
            )
        ),
        *(
            (STILL, control, Result.UNFIT_CONTROL)
            for control in (np.zeros(4, np.uint8), np.zeros(3, np.float32), "x", np.zeros((1, 3), np.uint8))
        ),
    ],
)
def test_what_does_not_fit_is_left_to_the_slow_path_and_nothing_is_published(
    mapping: mmap, actions: Any, control: Any, result: int
) -> None:
    client = a_client(mapping)
    assert client.send(actions, control) == result
    assert client.seq == 0
    assert an_engine(mapping).next(0) == Result.TIMED_OUT


def test_commands_and_actions_are_told_apart(mapping: mmap, ends: Ends) -> None:
    client, engine = ends
    native.store32(mapping, COMMANDS, 24)
    assert engine.next(0) == Result.HAS_COMMANDS
    client.send(STILL, None)
    assert engine.next(0) == Result.HAS_COMMANDS | Result.HAS_ACTIONS
    engine.commands_read(24)
    assert engine.next(0) == Result.HAS_ACTIONS


@pytest.mark.parametrize("jump", [2, 1000, -1])
def test_an_action_counter_that_does_not_move_by_one_is_reported_and_can_be_dropped(mapping: mmap, jump: int) -> None:
    engine = an_engine(mapping)
    np.frombuffer(mapping, np.uint64, 1, ACTION)[0] = np.int64(jump).astype(np.uint64)
    assert engine.next(0) == Result.OUT_OF_ORDER
    engine.resync()
    assert engine.next(0) == Result.TIMED_OUT


def test_a_frame_counter_that_jumps_is_reported(mapping: mmap) -> None:
    client = a_client(mapping)
    client.send(STILL, None)
    np.frombuffer(mapping, np.uint64, 1, FRAME)[0] = 5
    assert client.recv(0) == Result.OUT_OF_ORDER


@pytest.mark.parametrize("strategy", [0, 1, 2])
def test_a_parked_side_is_woken(mapping: mmap, strategy: int) -> None:
    client, engine = a_client(mapping, strategy=strategy), an_engine(mapping, strategy)
    found: list[int] = []

    def serve() -> None:
        while len(found) < 20:
            got = engine.next(50_000_000)
            if got > 0:
                found.append(got)
                engine.publish(0)

    with beside(serve):
        for pause in [0.0, 0.001, 0.003, 0.02] * 5:
            time.sleep(pause)
            assert client.step(STILL, None, 20 * SECOND_NS) == Result.FRAME
    assert found == [Result.HAS_ACTIONS] * 20


def test_words_are_loaded_stored_and_waited_for(mapping: mmap) -> None:
    native.store32(mapping, 64, 2**32 - 1)
    assert native.load32(mapping, 64) == 2**32 - 1
    waiting = {"park": 384, "strategy": 1, "peer": PEER_WAKES}
    assert native.wait32(mapping, 64, 2**32 - 1, **waiting, timeout_ns=1_000_000) == Result.TIMED_OUT
    thread = call_later(lambda: (native.store32(mapping, 64, 5), native.wake(mapping, 384)))
    assert native.wait32(mapping, 64, 2**32 - 1, **waiting, timeout_ns=20 * SECOND_NS) == 1
    thread.join()


def test_what_nobody_woke_us_for_is_found_after_a_look_at_the_peer(mapping: mmap) -> None:
    """So a peer that died in between is seen after one slice."""
    waiting = {"park": 384, "strategy": 2, "peer": PEER_WAKES}

    over = threading.Event()

    def change() -> None:
        until(lambda: native.load32(mapping, 384) or over.is_set())
        native.store32(mapping, 64, 5)

    with beside(change):
        found = native.wait32(mapping, 64, 0, **waiting, timeout_ns=30_000_000)
        over.set()
    assert found == Result.TIMED_OUT
    assert native.wait32(mapping, 64, 0, **waiting, timeout_ns=20 * SECOND_NS) == 1


def test_a_peer_that_never_wakes_us_is_polled(mapping: mmap) -> None:
    thread = call_later(native.store32, mapping, 64, 5)
    assert native.wait32(mapping, 64, 0, park=384, strategy=2, peer=0, timeout_ns=20 * SECOND_NS) == 1
    thread.join()


def test_a_fused_exchange_returns_the_frame_and_leaves_the_rest_to_the_slow_path(mapping: mmap, ends: Ends) -> None:
    client, engine = ends
    frame = SimpleNamespace(seq=0, any_ended=None)
    slow: list[Any] = []
    client.fuse((frame,), lambda *arguments: slow.append(arguments), 20 * SECOND_NS)
    lock = threading.RLock()

    def step(control: None) -> None:
        mapping[TERMINATED] = int(engine.seq == 1)

    with beside(engine.serve, step, lock.acquire, lock.release, 2 * SECOND_NS):
        assert client.exchange(STILL) is frame
        assert (frame.seq, frame.any_ended) == (1, False)
        assert client.exchange(STILL, None, deadline=None) is frame
        assert (frame.seq, frame.any_ended, client.frames) == (2, True, 2)
        control = np.ones(3, np.uint8)
        client.exchange(STILL, control=control)
        client.exchange("no STILL")
        client.unfuse()
        client.exchange(STILL)
        assert [arguments[0] for arguments in slow] == [Result.NOT_TRIED, Result.UNFIT_ACTIONS, Result.NOT_TRIED]
        assert slow[0][2] is control
    assert engine.seq == 2


def test_an_exchange_that_is_still_open_is_left_to_the_slow_path(mapping: mmap) -> None:
    client = a_client(mapping)
    codes: list[int] = []
    client.fuse((SimpleNamespace(),), lambda code, *rest: codes.append(code), 1_000_000)
    client.exchange(STILL)
    client.exchange(STILL)
    assert codes == [Result.TIMED_OUT, Result.NOT_TRIED]
    assert client.seq == 1


def test_an_exchange_publishes_no_nan_counts_what_is_outside_and_numbers_no_missing_frame(mapping: mmap) -> None:
    client = a_client(mapping)
    codes: list[int] = []
    frame = SimpleNamespace(seq=0, any_ended=None)
    client.fuse((frame,), lambda code, *rest: codes.append(code), 1_000_000)
    actions = np.zeros((3, 2), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        actions[1, 1] = bad
        client.exchange(actions)
    assert (client.seq, codes) == (0, [Result.NOT_FINITE] * 3)
    actions[:] = [[2.0, 0.0], [-7.0, 1.0], [0.5, -1.0]]
    client.exchange(actions)
    assert (client.seq, codes[3:], client.out_of_bounds) == (1, [Result.TIMED_OUT], 2)
    assert (frame.seq, client.frames) == (0, 0)


@pytest.mark.parametrize("wrong", [{}, {"nonsense": 1}])
def test_a_fused_exchange_refuses_wrong_arguments(mapping: mmap, wrong: dict[str, Any]) -> None:
    client = a_client(mapping)
    client.fuse((SimpleNamespace(),), print, 0)
    with pytest.raises(TypeError):
        client.exchange(**wrong)


def test_a_step_that_raises_ends_serve_releases_the_lock_and_publishes_nothing(ends: Ends) -> None:
    client, engine = ends
    lock = threading.RLock()

    def step(control: None) -> None:
        raise ArithmeticError("a fault")

    client.send(STILL, None)
    with pytest.raises(ArithmeticError, match="a fault"):
        engine.serve(step, lock.acquire, lock.release, SECOND_NS)
    assert engine.seq == 0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.acquire, timeout=5).result()


def test_an_engine_forgets_the_cpu_of_a_client_that_left(mapping: mmap, ends: Ends) -> None:
    client, engine = ends
    client.send(STILL, None)
    assert native.load32(mapping, PARK_ENGINE + 4) > 0
    engine.set_peer(PEER_WAKES)
    assert native.load32(mapping, PARK_ENGINE + 4) == 0


def test_an_engine_waits_until_its_client_lets_go_of_its_lock(mapping: mmap, tmp_path: Path) -> None:
    lock = lockfile.acquire(str(tmp_path / "lock"), lockfile.CLIENT)
    assert lock is not None
    watch = lockfile.Watch(str(tmp_path / "lock"), lock.own)
    engine = an_engine(mapping)
    engine.set_peer(PEER_WAKES, *watch.place)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(engine.next(10_000 * SECOND_NS)), daemon=True)
    thread.start()
    assert until(lambda: slept_ns(thread)) <= 30_000_000, "so long until it looks at the lock again"
    assert found == []
    lock.release()
    thread.join(PATIENCE_S)
    assert found == [Result.TIMED_OUT]
    watch.close()


def test_an_engine_that_is_woken_for_nothing_looks_after_its_client(mapping: mmap) -> None:
    engine = an_engine(mapping)
    found: list[int] = []
    threading.Thread(target=lambda: found.append(engine.next(10_000 * SECOND_NS)), daemon=True).start()
    until(lambda: native.wake(mapping, PARK_ENGINE) or found)  # as a client wakes it that comes or leaves
    assert found == [Result.TIMED_OUT]


def test_serve_returns_what_is_no_plain_action_and_when_it_is_interrupted(ends: Ends) -> None:
    client, engine = ends
    lock = threading.RLock()
    serve = (print, lock.acquire, lock.release)
    assert engine.serve(*serve, 0) == Result.TIMED_OUT
    client.send(STILL, np.ones(3, np.uint8))
    assert engine.serve(*serve, 0) == Result.HAS_ACTIONS | Result.HAS_CONTROL
    engine.publish(0)
    client.recv(0)
    client.send(STILL, None)
    engine.interrupt()
    assert engine.serve(*serve, 0) == Result.TIMED_OUT
    assert engine.seq == 1


def test_serve_runs_signal_handlers_while_a_client_answers_at_once(ends: Ends) -> None:
    client, engine = ends

    def stop(*_: object) -> None:
        raise InterruptedError

    # No bytecode runs between two exchanges: the step is C code, and sends the next actions itself.
    sends = map(client.send, repeat(STILL, 1_000_000), repeat(None))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        client.send(STILL, None)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(InterruptedError):
            engine.serve(partial(next, sends), int, int, SECOND_NS)
        assert next(sends, None) is not None, "a handler waited until the client paused"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_engines_heartbeat_moves_while_it_waits(mapping: mmap) -> None:
    engine = an_engine(mapping)
    before = native.load64(mapping, HEARTBEAT)
    engine.next(0)
    engine.next(0)
    assert native.load64(mapping, HEARTBEAT) == before + 2


def test_channels_refuse_offsets_and_shapes_that_do_not_fit_the_mapping(mapping: mmap) -> None:
    with pytest.raises(ValueError, match="does not lie"):
        a_client(mapping, actions=4090)
    with pytest.raises(ValueError, match="axis"):
        a_client(mapping, shape=(0, 2))
    channel: Any = a_client(mapping)
    with pytest.raises(TypeError, match="once"):
        channel.__init__(mapping, *range(5))
