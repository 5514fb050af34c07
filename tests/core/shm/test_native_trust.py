"""What a peer or a caller may do to the native types without crashing or hanging this process."""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from mmap import mmap
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport import native
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.wait import PEER_WAKES
from tests.core.shm.test_channels import ACTION, PARK_ENGINE, PARK_FRAME, STILL, a_client, an_engine
from tests.support.command import python
from tests.support.waiting import PATIENCE_S

BLOCK = 2
LONGEST_NS = 2**63 - 1


_SWEEP = """
from mmap import mmap
from lucky_transport import _native
checked = 0
def refuses(use):
    try:
        use()
    except TypeError as error:
        return "never initialised" in str(error)
    return False
def half(kind):
    made = kind.__new__(kind)
    far = 1 << 40
    offsets = (0, 8, 128, 256, 384, 512, 640, 1024)
    arguments = {
        "ClientChannel": ((*offsets, 2048, 2112, far, 3), ((3, 2), "f", -1.0, 1.0), 1, 3),
        "EngineChannel": ((*offsets, far, 2112, 2176, 3), 1),
        "RingWriter": (far, 64), "RingReader": (far, 64), "ImageSlot": (0, 4, far),
    }[kind.__name__]
    try:
        made.__init__(mmap(-1, 4096), *arguments)
    except ValueError:
        return made
    raise SystemExit(f"{kind.__name__} took what lies outside")
for name in ("ClientChannel", "EngineChannel", "RingWriter", "RingReader", "ImageSlot"):
    kind = getattr(_native, name)
    for thing in (kind.__new__(kind), half(kind)):
        for name, member in vars(kind).items():
            if name.startswith("__"):
                continue
            if callable(member):
                uses = [lambda n=n: member(thing, *[1] * n) for n in range(9)]
            else:
                uses = [lambda: getattr(thing, name)]
            if not any([refuses(use) for use in uses]):
                raise SystemExit(f"{kind.__name__}.{name} works without initialisation")
            checked += 1
print(checked)
"""


def test_no_member_of_a_native_type_works_before_its_initialisation() -> None:
    done = python("-c", _SWEEP)
    assert int(done.stdout) > 60, done.stderr


@pytest.mark.parametrize(
    ("kind", "arguments", "given", "named"),
    [
        ("SpinBudget", (0,), ("soon",), {}),
        ("PlainResults", (dict, {}, (), True, None), (), {}),
        ("PlainResults", (dict, {}, (), True, None), (SimpleNamespace(),), {"more": 1}),
    ],
)
def test_wrong_arguments_are_refused(kind: str, arguments: Any, given: Any, named: Any) -> None:
    made: Any = getattr(native, kind)(*arguments)
    with pytest.raises(TypeError):
        getattr(made, "learn", made)(*given, **named)


def test_the_words_of_an_image_may_be_the_last_of_a_file_and_no_further() -> None:
    native.ImageSlot(bytearray(12), number=0, owner=8, park=4)
    with pytest.raises(ValueError, match="12"):
        native.ImageSlot(bytearray(12), number=0, owner=12, park=4)


def _answer_of(wait: Callable[[], Any], parked: Callable[[], bool], wake: Callable[[], Any]) -> Any:
    """Return what `wait` returns in a thread of its own; `wake` is called once it is parked, or came back."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(wait()), daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while not parked() and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.001)
    wake()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the wait goes on"
    return answers[0]


def _parked(memory: mmap, offset: int) -> Callable[[], bool]:
    return lambda: memory[offset] == 1


def _nothing(*_: Any) -> None:
    pass


@pytest.mark.parametrize("way", ["next", "serve"])
def test_an_interrupt_ends_a_wait_however_long_its_slice_is(way: str) -> None:
    memory = mmap(-1, 4096)
    engine = an_engine(memory, BLOCK)
    slice_ns = 10 * int(PATIENCE_S * 1e9)
    waits = {
        "next": lambda: engine.next(slice_ns),
        "serve": lambda: engine.serve(_nothing, _nothing, _nothing, slice_ns),
    }
    assert _answer_of(waits[way], _parked(memory, PARK_ENGINE), engine.interrupt) == Result.TIMED_OUT
    memory[ACTION] = 1
    assert engine.next(0) == Result.HAS_ACTIONS, "an interrupt is taken once, and hides nothing"


def test_the_longest_timeout_is_no_short_one() -> None:
    memory = mmap(-1, 8192)
    client, engine = a_client(memory, strategy=BLOCK), an_engine(memory, BLOCK)
    client.send(STILL, None)
    engine.next(0)
    parked = _parked(memory, PARK_FRAME)
    assert _answer_of(lambda: client.recv(LONGEST_NS), parked, lambda: engine.publish(0)) == Result.FRAME
    send = lambda: client.send(STILL, None)  # noqa: E731
    waited = _answer_of(lambda: engine.next(LONGEST_NS), _parked(memory, PARK_ENGINE), send)
    assert waited == Result.HAS_ACTIONS

    def bump() -> None:
        memory[3000] = 1
        native.wake(memory, 3004)

    wait = {"park": 3004, "strategy": BLOCK, "peer": PEER_WAKES, "timeout_ns": LONGEST_NS}
    waited = _answer_of(lambda: native.wait32(memory, 3000, 0, **wait), _parked(memory, 3004), bump)
    assert waited == 1


def test_the_longest_timeout_of_a_rings_ends_is_no_short_one() -> None:
    memory, (park, start) = mmap(-1, 8192), (0, 1024)
    writer = native.RingWriter(memory, start, 64, park=park, strategy=BLOCK)
    reader = native.RingReader(memory, start, 64, park=park, strategy=BLOCK)
    parked = _parked(memory, park)
    assert _answer_of(lambda: reader.wait(LONGEST_NS), parked, lambda: writer.try_push(b"12345678")) == 1
    while writer.try_push(b"12345678"):
        pass
    waits_for_room = _parked(memory, start + 192)
    assert _answer_of(lambda: writer.wait_writable(8, LONGEST_NS), waits_for_room, reader.try_pop) == 1


@pytest.mark.parametrize("end", ["RingWriter", "RingReader"])
def test_an_end_that_its_own_refusal_refers_to_is_collected(end: str) -> None:
    class Pipe:
        def __init__(self) -> None:
            self.end = getattr(native, end)(mmap(-1, 4096), 1024, 64)
            self.end.shut(lambda: RuntimeError(f"{self} is closed"))

    pipe = Pipe()
    gone = weakref.ref(pipe)
    del pipe
    gc.collect()
    assert gone() is None
