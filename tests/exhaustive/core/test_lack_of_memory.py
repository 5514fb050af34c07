"""Each allocation of the native module fails once: that is an error, and the next call finds all in order."""

import pytest

from tests.support.command import python

pytest.importorskip("_testcapi", reason="this Python has no _testcapi")

#: In a process of its own, since any thread's allocation may be the one that fails.
_FAILING = """
import sys
from types import SimpleNamespace
import _testcapi
import numpy as np
from lucky_transport import native
from lucky_transport.shm.ring import HEAD_BYTES, SKIP, ring_bytes

def failing(act):
    found = []
    while not found or isinstance(found[-1], (MemoryError, ImportError)):
        _testcapi.set_nomemory(len(found) + 1, len(found) + 2)
        try:
            given = act()
        except (MemoryError, ImportError) as error:  # NumPy's, where its C API is asked for
            given = error.with_traceback(None)
        _testcapi.remove_mem_hooks()
        found.append(given)
    assert len(found) > 2, found
    return found[-1]
"""

_RESULTS = """
class Info(dict):
    pass

make = native.PlainResults
frame = SimpleNamespace(observations=np.ones((3, 4)), rewards=np.ones(3), signals=np.ones((2, 3)))
of = Info, {}, ("a", "b"), True, None
print(len(failing(lambda: make(*of)(frame))))
name = sys.intern("observations")
before = sys.getrefcount(name)
results = make.__new__(make)
failing(lambda: results.__init__(*of))
print(len(results(frame)))
del results
print(sys.getrefcount(name) - before)
"""

#: Two items, and behind them the end of the ring, which the writer skips ahead of its next record.
_ITEMS = """
size, begin = 1024, 768
memory = bytearray(64 + ring_bytes(size))

def store(at, word):
    memory[at : at + 4] = word.to_bytes(4, "little")

def read():
    return int.from_bytes(memory[192:196], "little")

store(64, begin)
store(192, begin)
writer, reader = native.RingWriter(memory, 64, size), native.RingReader(memory, 64, size)
assert all(writer.push(2, 7000, bytes(20)) for _ in range(2))
store(64 + HEAD_BYTES + writer.position, SKIP)
store(64, size)

def pop():
    try:
        return reader.pop_batch(9)
    finally:
        seen.append(reader.position - read())

seen = []
failing(pop)
print(set(seen), reader.position, reader.pop_batch(9))
"""


@pytest.mark.parametrize(("act", "printed"), [(_RESULTS, "5\n5\n0\n"), (_ITEMS, "{0} 1024 None\n")])
def test_what_finds_no_memory_raises_and_leaves_all_in_order(act: str, printed: str) -> None:
    done = python("-c", _FAILING + act)
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
