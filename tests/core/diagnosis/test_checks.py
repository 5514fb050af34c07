"""Checks of the system, each against a system that was made to look so: its row says what was seen, and the remedy."""

import errno
import os
import platform
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport import control, native
from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis import inspection, machine, shared_memory
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.diagnosis.table import CHECKS, examine
from lucky_transport.errors import DeviceError, MissingExtra, NoSpace, SegmentError
from lucky_transport.shm.segment import segment
from tests.support.command import python
from tests.support.fake_cuda import FakeDriver
from tests.support.resources import descriptors_of

OK, WARN, FAIL = CheckStatus.OK, CheckStatus.WARN, CheckStatus.FAIL
MIB = 1 << 20
UNLIMITED = resource.RLIM_INFINITY


class System:
    """An empty system: files are written below `folder`, whose directories `roots` names."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.answers(control, engines=[])  # others' tests run some
        for name in (names := ("shm", "proc")):
            (folder / name).mkdir()
        self.shm = folder / "shm"
        self.shm.chmod(0o1777)
        self.roots = Roots(**{name: folder / name for name in names})

    def write(self, **texts: str) -> None:
        """Write files; a name has two underscores for each slash and "dot" for a dot."""
        for name, text in texts.items():
            path = self.folder / name.replace("__", "/").replace("dot", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def answers(self, module: Any, **values: Any) -> None:
        """Have functions of a module answer this, or raise it."""

        def function(value: Any) -> Callable[..., Any]:
            def answer(*_: Any, **__: Any) -> Any:
                if isinstance(value, BaseException):
                    raise value
                return value

            return answer

        for name, value in values.items():
            self.patch.setattr(module, name, function(value), raising=False)

    def cpus(self, count: int) -> None:
        self.answers(os, sched_getaffinity=set(range(count)))

    def free(self, free_mib: int) -> None:
        self.answers(
            os, statvfs=SimpleNamespace(f_blocks=64 * MIB // 4096, f_bavail=free_mib * MIB // 4096, f_frsize=4096)
        )

    def runtime(self, mode: int) -> None:
        self.patch.setenv("XDG_RUNTIME_DIR", str(self.folder))
        (self.folder / "lucky_transport").mkdir()
        (self.folder / "lucky_transport").chmod(mode)

    def uid_map(self, rows: str) -> None:
        self.answers(os, geteuid=5)
        self.write(proc__self__uid_map=rows)

    def nvidia(self, driver: Any) -> None:
        self.write(proc__driver__nvidia__x="")
        self.answers(libcuda, load_driver=driver)

    def no_nvidia(self) -> None:
        self.patch.setattr(libcuda, "LIBRARY", str(self.folder / "libcuda.so.1"))
        libcuda.forget_driver()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    monkeypatch.chdir(tmp_path)
    return System(tmp_path, monkeypatch)


def nothing(system: System) -> None:
    """The system is as it is."""


def spinning(count: int) -> Callable[[System], None]:
    def prepare(system: System) -> None:
        system.cpus(count)
        system.patch.setenv("LUCKY_WAIT", "spin")

    return prepare


#: The check, what the system is made to look like, the verdict, patterns of what is seen and of the remedy.
ROWS: list[tuple[Callable[[Roots], Check], Callable[[System], object], CheckStatus, str, str]] = [
    (machine.interpreter, nothing, OK, re.escape(platform.python_version()), ""),
    (machine.interpreter, lambda s: s.patch.setattr(sys, "byteorder", "big"), FAIL, "big-endian", ""),
    (machine.kernel, lambda s: s.answers(platform, system="Linux"), OK, "", ""),
    (machine.kernel, lambda s: s.answers(platform, system="Darwin"), WARN, "", ""),
    (
        machine.pidfd,
        lambda s: s.answers(os, pidfd_open=OSError(errno.EPERM, "Operation not permitted")),
        FAIL,
        "Operation not permitted",
        "Linux 5.3",
    ),
    (machine.cpus, lambda s: s.cpus(1), OK, "^1 usable.*spin.*burn the very time", ""),
    (machine.cpus, lambda s: s.cpus(2), OK, "^2 usable.*two spinning sides", ""),
    (machine.cpus, lambda s: s.cpus(3), OK, "^3 usable((?!spin).)*$", ""),
    (machine.cpus, spinning(2), WARN, "", ""),
    (machine.cpus, spinning(3), OK, "", ""),
    (
        machine.open_files,
        lambda s: s.answers(resource, getrlimit=(64, 4096)),
        WARN,
        "^soft limit 64, hard .* 4096",
        "",
    ),
    (
        machine.open_files,
        lambda s: s.answers(resource, getrlimit=(1024, UNLIMITED)),
        OK,
        "^soft limit 1024, hard limit unlimited",
        "",
    ),
    (
        machine.open_files,
        lambda s: s.answers(resource, getrlimit=(UNLIMITED, UNLIMITED)),
        OK,
        "^soft limit unlimited, hard limit unlimited",
        "",
    ),
    (machine.settings, nothing, OK, "^all at their defaults", ""),
    (
        machine.settings,
        lambda s: s.patch.setenv("LUCKY_TRANSPORT", "shm"),
        OK,
        r"^transport = 'shm' \(environment variable LUCKY_TRANSPORT\)",
        "",
    ),
    (machine.settings, lambda s: s.patch.setenv("LUCKY_WAIT", "patiently"), FAIL, "LUCKY_WAIT", "'adaptive'"),
    (machine.cuda_driver, lambda s: s.no_nvidia(), OK, "no CUDA driver", ""),
    (machine.cuda_driver, lambda s: s.nvidia(FakeDriver(devices=2)), OK, "12.4.*1: Fake GPU 1", ""),
    (machine.cuda_driver, lambda s: s.nvidia(DeviceError("NO_DEVICE", hint="mend it")), WARN, "NO_DEVICE", "mend it"),
    (machine.cuda_driver, lambda s: s.nvidia(DeviceError("NO_DEVICE")), WARN, "NO_DEVICE", "."),
    (shared_memory.space, lambda s: s.free(0), FAIL, "the smallest segment needs", "--shm-size"),
    (
        shared_memory.space,
        lambda s: s.free(2),
        WARN,
        "4096 envs of 100 observations and 12 actions need",
        "--shm-size",
    ),
    (shared_memory.space, lambda s: s.free(64), OK, "64 MiB free of 64 MiB", ""),
    (shared_memory.space, lambda s: s.shm.rmdir(), FAIL, "", "mount a tmpfs"),
    (shared_memory.permissions, nothing, OK, "1777", ""),
    (shared_memory.permissions, lambda s: s.shm.chmod(0o700), OK, "0700", ""),
    (shared_memory.permissions, lambda s: s.shm.chmod(0o777), WARN, "0777", ""),
    (shared_memory.permissions, lambda s: s.answers(os, access=False), FAIL, f"user id {os.getuid()}", ""),
    (
        shared_memory.trial_segment,
        lambda s: s.answers(segment, create=NoSpace("5 bytes do not fit", hint="use fewer envs")),
        FAIL,
        "^5 bytes do not fit$",
        "^use fewer envs$",
    ),
    (shared_memory.trial_segment, lambda s: s.shm.rmdir(), FAIL, "shm", ""),
    (shared_memory.native_module, nothing, OK, f"^version {native.VERSION}, loaded$", ""),
    (
        shared_memory.native_module,
        lambda s: s.patch.setattr(native, "problem", lambda: MissingExtra("it cannot be loaded", hint="install it")),
        FAIL,
        "^it cannot be loaded",
        "^install it$",
    ),
    (machine.user_mapping, lambda s: s.uid_map("0 0 4294967295\n"), OK, "user id 5, no user namespace", ""),
    (
        machine.user_mapping,
        lambda s: s.uid_map("0 1000 1\n1 100000 65536\n"),
        OK,
        "user id 5 is 100004 outside this user namespace",
        "",
    ),
    *(
        (machine.user_mapping, lambda s, rows=rows: s.uid_map(rows), FAIL, "has no id outside", "--userns=keep-id")
        for rows in ("0 1000 1\n", "")
    ),
    (machine.runtime_directory, lambda s: s.runtime(0o700), OK, "/lucky_transport", ""),
    (
        machine.runtime_directory,
        lambda s: s.runtime(0o755),
        FAIL,
        "mode 0755: only your own, mode 0700, is used",
        "chmod 700 .*/lucky_transport",
    ),
    (machine.engines, nothing, OK, "^0 living engines$", ""),
    (shared_memory.stale_segments, nothing, OK, "^none among 0 on this host$", ""),
]


@pytest.mark.parametrize(
    ("check", "prepare", "verdict", "seen", "remedy"),
    ROWS,
    ids=[f"{row[0].__name__} {row[2].value} {at}" for at, row in enumerate(ROWS)],
)
def test_a_check_says_what_it_saw_and_the_remedy(
    system: System,
    check: Callable[[Roots], Check],
    prepare: Callable[[System], object],
    verdict: CheckStatus,
    seen: str,
    remedy: str,
) -> None:
    prepare(system)
    row = check(system.roots)
    assert row.verdict is verdict
    assert re.search(seen, row.seen), row.seen
    assert re.search(remedy, row.remedy), row.remedy
    assert bool(row.remedy) == (verdict is not OK)


def test_what_is_tried_leaves_nothing(system: System) -> None:
    before = descriptors_of("[pidfd]")
    assert machine.pidfd(Roots()).verdict is OK
    assert not descriptors_of("[pidfd]") - before
    assert shared_memory.trial_segment(system.roots).verdict is OK
    assert list(system.shm.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_segments_of_other_users_are_out_of_reach(system: System) -> None:
    for name in ("theirs", "theirs.lock", "editor.lock"):
        (system.shm / name).touch(0o600)
        os.chown(system.shm / name, 4711, 4711)
    os.mkfifo(system.shm / "pipe")
    os.chown(system.shm / "pipe", 4711, 4711)
    (system.shm / "pipe.lock").touch()
    row = machine.engines(system.roots)
    assert row.verdict is WARN
    assert row.seen == "0 living engines; of other users, so out of reach: theirs (user id 4711)"
    assert "--user" in row.remedy


def test_a_segment_that_is_there_for_one_look_only_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr(inspection.segment_files, "find", lambda directory, name: [])
    monkeypatch.setattr(inspection.segment, "open_segment", lambda name, *_, **__: opened.append(name))
    with pytest.raises(SegmentError, match="demo changes while it is read; try again"):
        inspection.of_segment("demo", tmp_path)
    assert 1 < len(opened) < 10


def test_every_check_gives_one_row_with_a_name_of_its_own() -> None:
    names = [row.name for row in examine()]
    assert len(set(names)) == len(CHECKS)


@pytest.mark.parametrize("error", [PermissionError("/dev/shm is closed"), ImportError("no numpy")])
def test_a_check_that_cannot_look_is_a_failed_row(error: Exception) -> None:
    def look_at_something(roots: Roots) -> Check:
        raise error

    (row,) = examine(checks=[look_at_something])
    assert (row.name, row.verdict) == ("look at something", FAIL)
    assert str(error) in row.seen


@pytest.mark.parametrize(("verdict", "remedy"), [(OK, "do something"), (WARN, ""), (FAIL, "")])
def test_what_is_wrong_has_a_remedy_and_what_is_right_has_none(verdict: CheckStatus, remedy: str) -> None:
    with pytest.raises(ValueError, match="teapot"):
        Check("teapot", verdict, "seen", remedy)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from lucky_transport.diagnosis.table import examine
rows = {row.name: row for row in examine()}
assert rows["python"].verdict == "ok", rows
print(rows["space"].verdict, rows["space"].seen)
"""


@pytest.mark.exhaustive
def test_a_broken_installation_is_still_diagnosed() -> None:
    done = python("-c", WITHOUT_NUMPY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fail could not be looked at: ModuleNotFoundError: import of numpy halted")
