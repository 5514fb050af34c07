"""Memory of files and of messages. Mapped files that somebody truncates: zeros and a typed error and never a signal.

Each attack runs in a process of its own, which says what it saw and how it ended.
"""

import os
import platform
import signal
import subprocess
import tempfile
from mmap import PAGESIZE
from pathlib import Path

import pytest

from lucky_transport.errors import SegmentError
from lucky_transport.shm.files import private_file
from lucky_transport.shm.files.mapping import Mapping, map_file
from tests.support.boxes import boxed, needs
from tests.support.command import python

PAGES = 8
SIZE = PAGES * 4096


_BEGIN = """
import faulthandler, os, signal, sys, threading
import numpy as np
from lucky_transport.shm.files import private_file
from lucky_transport.shm.files.mapping import map_file

def made(name="one", fill=7):
    path = os.path.join(sys.argv[1], name)
    fd = private_file.open_private(path, make=private_file.Make.ALWAYS)
    os.posix_fallocate(fd, 0, 32768)
    mapping = map_file(fd, 32768, path)
    os.close(fd)
    array = np.frombuffer(mapping, np.uint8)
    array[:] = fill
    return path, mapping, array
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return python("-c", _BEGIN + code, folder)


def said(code: str, folder: Path) -> list[str]:
    """Return what the process printed; it has to end well and say nothing of a fault."""
    done = run(code, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("length", [0, 1, 4096, 20_000])
def test_a_truncated_mapping_reads_zeros_wherever_it_is_touched(length: int, tmp_path: Path) -> None:
    code = f"""
path, mapping, array = made()
os.truncate(path, {length})
print(mapping.is_lost, mapping.is_cut, int(array[-1]), mapping.is_lost, int(array.sum()), mapping[:1].hex())
array[:] = 9
print(int(array.sum()) == 9 * len(array), bytes(mapping)[:2].hex(), array.copy()[-1])
"""
    assert said(code, tmp_path) == ["False", "True", "0", "True", "0", "00", "True", "0909", "9"]


def test_writing_beyond_the_end_is_survived_too_and_other_mappings_are_left_alone(tmp_path: Path) -> None:
    code = """
others = [made(f"other{n}", n + 1) for n in range(100)]
path, mapping, array = made()
os.truncate(path, 4096)
array[:] = 5
print(mapping.is_lost, sum(other.is_cut for _, other, _ in others))
print(all((a == n + 1).all() for n, (_, _, a) in enumerate(others)))
for path, other, array in others:
    os.truncate(path, 0)
print(sum(int(array[-1]) for _, _, array in others), all(other.is_lost for _, other, _ in others))
"""
    assert said(code, tmp_path) == ["True", "0", "True", "0", "True"]


def test_threads_that_touch_it_at_once_all_go_on(tmp_path: Path) -> None:
    code = """
for round in range(20):
    path, mapping, array = made(f"f{round}")
    ready = threading.Barrier(5)
    sums = []
    def touch():
        ready.wait()
        for _ in range(50):
            target = np.empty_like(array)
            np.copyto(target, array)
        sums.append(int(array[-1]))
    threads = [threading.Thread(target=touch) for _ in range(4)]
    for thread in threads: thread.start()
    ready.wait()
    os.truncate(path, 0)
    for thread in threads: thread.join()
    assert len(sums) == 4 and array[-1] == 0 and mapping.is_lost
print("done")
"""
    assert said(code, tmp_path) == ["done"]


def test_a_forked_child_survives_and_its_parent_keeps_its_own_view(tmp_path: Path) -> None:
    code = """
path, mapping, array = made()
child = os.fork()
if not child:
    os.truncate(path, 0)
    os._exit(int(array[5]) or not mapping.is_lost)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(mapping.is_lost, mapping.is_cut, int(array[5]), mapping.is_lost)
"""
    assert said(code, tmp_path) == ["0", "False", "True", "0", "True"]


@pytest.mark.parametrize("order", ["before", "after", "after, then another mapping"])
def test_faulthandler_does_not_take_the_process_with_it(order: str, tmp_path: Path) -> None:
    code = f"""
if {order == "before"}: faulthandler.enable()
path, mapping, array = made()
if {order != "before"}: faulthandler.enable()
if {order == "after, then another mapping"}: made("two")
os.truncate(path, 0)
print(int(array[-1]), mapping.is_lost, int(array[0]))
"""
    done = run(code, tmp_path)
    assert done.returncode == 0
    assert done.stdout.split() == ["0", "True", "0"]
    assert ("Bus error" in done.stderr) == (order == "after")  # it saw the fault first


_FOREIGN_FAULT = """
import mmap
file = open(os.path.join(sys.argv[1], "foreign"), "w+b")
file.truncate(4096)
foreign = mmap.mmap(file.fileno(), 4096)
file.truncate(0)
foreign[0]
"""


@pytest.mark.parametrize("enabled", ["no", "before", "after", "after, then another mapping"])
def test_a_fault_that_is_not_ours_ends_the_process_as_ever(enabled: str, tmp_path: Path) -> None:
    code = f"""
if {enabled == "before"}: faulthandler.enable()
made()
if {enabled.startswith("after")}: faulthandler.enable()
if {enabled == "after, then another mapping"}: made("two")
"""
    done = run(code + _FOREIGN_FAULT, tmp_path)
    assert done.returncode == -signal.SIGBUS
    assert done.stderr.count("Fatal Python error: Bus error") == (enabled != "no")


@pytest.mark.exhaustive
def test_a_signal_that_somebody_sends_does_what_it_did_before(tmp_path: Path) -> None:
    assert run("made(); os.kill(os.getpid(), signal.SIGBUS)", tmp_path).returncode == -signal.SIGBUS
    code = """
signal.signal(signal.SIGBUS, lambda *_: print("heard"))
made("two")
os.kill(os.getpid(), signal.SIGBUS)
signal.raise_signal(signal.SIGBUS)
"""
    assert said(code, tmp_path) == ["heard", "heard"]
    code = "signal.signal(signal.SIGBUS, signal.SIG_IGN); made('three'); os.kill(os.getpid(), signal.SIGBUS); print(1)"
    assert said(code, tmp_path) == ["1"]


def test_a_handler_that_was_replaced_is_put_back_by_the_next_mapping(tmp_path: Path) -> None:
    code = """
path, mapping, array = made()
signal.signal(signal.SIGBUS, signal.SIG_DFL)
made("two")
os.truncate(path, 0)
print(int(array[0]), mapping.is_lost)
"""
    assert said(code, tmp_path) == ["0", "True"]


@pytest.mark.exhaustive
def test_addresses_that_are_used_again_are_guarded_for_their_new_file_only(tmp_path: Path) -> None:
    code = """
for round in range(300):
    path, mapping, array = made(f"f{round}", round % 250 + 1)
    if round % 3:
        os.truncate(path, 0)
        assert array[-1] == 0 and mapping.is_lost
    else:
        assert array[-1] == round % 250 + 1 and not mapping.is_cut
    os.unlink(path)
    del mapping, array
print("done")
"""
    assert said(code, tmp_path) == ["done"]
    unguarded = """
import mmap
path, mapping, array = made()
del mapping, array
os.truncate(path, 32768)
fd = os.open(path, os.O_RDWR)
foreign = mmap.mmap(fd, 32768)
os.truncate(path, 0)
foreign[0]
"""
    os.unlink(tmp_path / "f0") if (tmp_path / "f0").exists() else None
    assert run(unguarded, tmp_path).returncode == -signal.SIGBUS


def _mapped(path: Path) -> Mapping:
    fd = private_file.open_private(path, make=private_file.Make.ALWAYS)
    os.posix_fallocate(fd, 0, SIZE)
    try:
        return map_file(fd, SIZE, path)
    finally:
        os.close(fd)


def test_a_cut_is_an_error_with_the_path_and_the_remedy_even_before_it_is_touched(tmp_path: Path) -> None:
    mapping = _mapped(tmp_path / "one")
    mapping.check()
    os.truncate(tmp_path / "one", SIZE - 1)
    with pytest.raises(SegmentError, match=f"{tmp_path}/one was truncated .*{SIZE} bytes.*connect again"):
        mapping.check()


def test_a_file_that_grows_or_is_replaced_is_not_cut(tmp_path: Path) -> None:
    mapping = _mapped(tmp_path / "one")
    os.truncate(tmp_path / "one", 2 * SIZE)
    mapping.check()
    os.unlink(tmp_path / "one")
    (tmp_path / "one").write_bytes(b"other")
    mapping.check()
    mapping[0] = 3
    assert mapping[0] == 3


def test_closing_by_hand_is_possible(tmp_path: Path) -> None:
    mapping = _mapped(tmp_path / "one")
    view = memoryview(mapping)
    with pytest.raises(BufferError):
        mapping.close()
    assert view[0] == 0
    view.release()
    mapping.close()
    mapping.close()


def test_a_lost_mapping_whose_close_is_refused_stays_lost(tmp_path: Path) -> None:
    code = """
path, mapping, array = made()
os.truncate(path, 0)
array[-1]
try:
    mapping.close()
except BufferError:
    print(mapping.is_lost)
del array
mapping.close()
print(made("one again")[1].is_lost)
"""
    assert said(code, tmp_path) == ["True", "False"]


_FAULTS = """
import mmap, resource, sys, threading
from lucky_transport.shm.ring_pipe import open_reader, open_writer
memory = mmap.mmap(-1, (1 << 20) + (64 << 20))
arena = {"arena": 1 << 20, "arena_bytes": 64 << 20}
writer, reader = open_writer(memory, 0, 1 << 19, **arena), open_reader(memory, 0, 1 << 19, **arena)
record = bytes(int(sys.argv[1]))

def pass_some():
    for number in range(12):
        if number == 6:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        kept = []
        for _ in range(3):  # several at once, all of them gone before the next come
            assert writer.try_push(record)
            kept.append(bytearray(reader.try_pop()))  # copied once more, as a parser does
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 6)

thread = threading.Thread(target=pass_some)
thread.start() if sys.argv[2] == "thread" else pass_some()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep memory by other rules")
@pytest.mark.parametrize(
    ("length", "where"), [(40_000, "main"), (100_000, "main"), (1_000_000, "main"), (36_000_000, "thread")]
)
def test_messages_that_come_again_are_put_where_the_last_ones_were(length: int, where: str) -> None:
    """Memory that goes back to the system with each message comes back page by page: that many faults for each."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = python("-c", _FAULTS, length, where, env=environment, check=True)
    assert float(done.stdout) < length // PAGESIZE


_SMALL = """
import os, subprocess, sys
from mmap import mmap
from pathlib import Path
from lucky_transport.shm.files import mapping
from lucky_transport.shm.ring_pipe import open_writer

folder, START, ARENA, MIB = Path(sys.argv[1]), 1 << 16, 64 << 20, 1 << 20
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", folder], check=True)

def used():
    stats = os.statvfs(folder)
    return (stats.f_blocks - stats.f_bfree) * stats.f_frsize // MIB

def push(length):
    memory = mapping.allocate(folder / "segment", START, "a segment", "", mapped=START + ARENA)
    pushed = open_writer(memory, 0, 4096, arena=START, arena_bytes=ARENA).try_push(bytes(length))
    with open(folder / "other", "w+b") as file:  # of a program that knows of no bound
        file.truncate(4 * MIB)
        mmap(file.fileno(), 4 * MIB)[:] = bytes(4 * MIB)
    print(pushed, used())
    os.unlink(folder / "segment")
    os.unlink(folder / "other")

for length in (20 * MIB, 30 * MIB, 40 * MIB):
    push(length)
mapping.MARGIN = 0  # as where another program takes what is left at the same moment
push(40 * MIB)
"""


def test_a_slab_takes_no_memory_that_other_programs_need() -> None:
    flags = ("--user", "--map-root-user", "--mount")
    needs(flags)
    with tempfile.TemporaryDirectory() as folder, boxed(flags, "-c", _SMALL, folder) as box:
        assert [box.line() for _ in range(4)] == ["True 24", "False 4", "False 4", "False 4"]
