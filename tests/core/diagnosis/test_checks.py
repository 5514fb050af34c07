"""Checks of the system, of what is installed and of what containers share: what was seen, and the remedy."""

import errno
import os
import platform
import re
import resource
import sys
import tempfile
from collections.abc import Callable
from email.message import Message
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport import control, native
from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis import inspection, machine, packages, shared_memory
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.diagnosis.packages import Requirement
from lucky_transport.diagnosis.table import CHECKS, examine
from lucky_transport.errors import BrokenPlugin, DeviceError, MissingExtra, NoSpace, SegmentError
from lucky_transport.hookspecs import EngineInfo, TransportInfo
from lucky_transport.process import unique_name
from lucky_transport.registry import Registry
from lucky_transport.shm.segment import segment
from lucky_transport.version import install_command
from tests.support.boxes import PID, boxed, needs
from tests.support.command import python, stdout_of
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
    printed = stdout_of(python("-c", WITHOUT_NUMPY))
    assert printed.startswith("fail could not be looked at: ModuleNotFoundError: import of numpy halted")


# --- what is installed, and what containers share ---


HERE = Roots()


def require(monkeypatch: pytest.MonkeyPatch, **extras: list[str]) -> None:
    """Let our own metadata ask for this (`always` = without any extra)."""
    wanted = {
        ("" if extra == "always" else extra): [Requirement.parse(r) for r in lines] for extra, lines in extras.items()
    }
    monkeypatch.setattr(packages, "requirements", lambda: {"": [], **wanted})


def test_requirements_come_from_the_installed_metadata() -> None:
    found = packages.requirements()
    assert "numpy" in [one.name for one in found[""]]
    assert "grpcio" in [one.name for one in found["grpc"]]
    assert "grpcio" not in [one.name for one in found[""]]
    assert found["shm"] == []


def lines_of_metadata(monkeypatch: pytest.MonkeyPatch, **extras: list[str]) -> None:
    """Let the installed metadata of our own distribution have these extras."""
    lines = [f'{one}; extra == "{extra}"' for extra, ones in extras.items() for one in ones]
    told = Message()
    for extra in extras:
        told["Provides-Extra"] = extra
    monkeypatch.setattr(packages.metadata, "metadata", lambda name: told)
    monkeypatch.setattr(packages.metadata, "requires", lambda name: lines)


def test_an_extra_that_refers_to_another_requires_what_that_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    extras = {"wire": ["a_package_nobody_has>=2"], "game": ["lucky_transport[wire]"], "all": ["Lucky-Transport[game]"]}
    lines_of_metadata(monkeypatch, **extras)
    found = packages.requirements()
    assert found["game"] == [Requirement("a_package_nobody_has", at_least="2", extra="wire")]
    assert [one.name for one in found["all"]] == ["a_package_nobody_has"]


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("numpy>=1.26", Requirement("numpy", at_least="1.26")),
        ("numpy<3,>=1.26", Requirement("numpy", at_least="1.26", below="3")),
        ("numpy >= 1.26, < 3 ; extra == 'x'", Requirement("numpy", at_least="1.26", below="3", extra="x")),
        ("posix-ipc >= 1.1 ; extra == 'holodeck'", Requirement("posix-ipc", at_least="1.1", extra="holodeck")),
        ('lucky-transport[bench,scan]; extra == "all"', Requirement("lucky-transport", ("bench", "scan"), extra="all")),
    ],
)
def test_lines_of_metadata_are_read(line: str, parsed: Requirement) -> None:
    assert Requirement.parse(line) == parsed


def test_a_line_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="numpy~=3"):
        Requirement.parse("numpy~=3")


def test_extras_in_a_circle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines_of_metadata(monkeypatch, one=["lucky-transport[two]", "numpy"], two=["lucky-transport[one]"])
    assert [one.name for one in packages.requirements()["two"]] == ["numpy"]


def test_the_versions_of_all_that_is_needed_are_shown() -> None:
    row = packages.versions(HERE)
    assert row.verdict == "ok"
    for name in ("lucky-transport", "numpy", "gymnasium", "click"):
        assert f"{name} {metadata.version(name)}" in row.seen


NUMPY = f"numpy {metadata.version('numpy')} is installed, needed is "
ABSENT = "a_package_nobody_has"


@pytest.mark.parametrize(
    ("check", "extras", "verdict", "says"),
    [
        (packages.versions, {"always": ["numpy>=999"]}, "fail", f"{NUMPY}>=999"),
        (packages.versions, {"always": ["numpy>=1,<1.1"]}, "fail", f"{NUMPY}<1.1"),
        (packages.versions, {"always": [ABSENT]}, "fail", f"{ABSENT} is not installed"),
        (
            packages.extras,
            {"pigeon": [f"{ABSENT}>=2"], "shm": [], "dev": ["another_one"]},
            "ok",
            f"installed: shm; not installed: pigeon ({install_command('EXTRA')} brings one)",
        ),
        (packages.extras, {"pigeon": ["numpy>=999", ABSENT], "shm": []}, "warn", "wrong: pigeon (numpy "),
        (packages.extras, {"shm": [], "numbers": ["numpy"]}, "ok", "installed: shm, numbers"),
    ],
)
def test_what_is_not_met_is_said_as_failure_or_loss(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Roots], Check],
    extras: dict[str, list[str]],
    verdict: str,
    says: str,
) -> None:
    require(monkeypatch, **extras)
    row = check(HERE)
    assert row.verdict == verdict
    assert says in row.seen
    assert row.remedy == (install_command("pigeon") if verdict == "warn" else row.remedy)


@pytest.mark.parametrize(
    ("installed", "needed", "met"),
    [
        ("1.26.0", "1.26", True),
        ("1.26", "1.26.0", True),
        ("2.0rc1", "2.0", True),
        ("1.9", "1.10", False),
        ("2026.1", "23", True),
        ("1.25.9+local", "1.26", False),
    ],
)
def test_versions_compare_by_numbers(monkeypatch: pytest.MonkeyPatch, installed: str, needed: str, met: bool) -> None:
    require(monkeypatch, always=[f"numpy>={needed}"])
    monkeypatch.setattr(packages.metadata, "version", lambda name: installed)
    assert (packages.versions(HERE).verdict == "ok") == met


WORKING = {"toy": EngineInfo("toy", "lucky_transport.engines.toy_composite:make_engine", "works")}
PIGEON = TransportInfo("pigeon", ("pigeon",), "lucky_transport_pigeon:connect", "x:y", "carries letters")
EXTRA = EngineInfo("pigeon", "lucky_transport_pigeon:make_engine", "flies", extra="pigeon")


@pytest.mark.parametrize(
    ("found", "verdict", "says"),
    [
        (Registry(engines=WORKING), "ok", "usable: toy"),
        (
            Registry(engines=WORKING, broken={"pigeon": BrokenPlugin("it flew away")}),
            "fail",
            "pigeon: BrokenPlugin: it flew away",
        ),
        (Registry(transports={"pigeon": PIGEON}), "fail", "transport 'pigeon' failed to load"),
        (Registry(engines={"pigeon": EXTRA}), "ok", ""),  # left to the check of the extras
    ],
    ids=["loads", "cannot be imported", "code does not load", "lacks its extra"],
)
def test_plugins_are_tried(monkeypatch: pytest.MonkeyPatch, found: Registry, verdict: str, says: str) -> None:
    require(monkeypatch, pigeon=[ABSENT])
    row = packages.broken_plugins(HERE, found)
    assert row.verdict == verdict
    assert says in row.seen


def test_a_user_that_nobody_mapped_is_told_so() -> None:
    unmapped = ("--user",)
    needs(unmapped)
    with boxed(unmapped, "-m", "lucky_transport", "doctor") as box:
        line = box.line()
        while "has no id outside this user namespace" not in line:
            line = box.line()
        assert line.split()[:3] == ["user", "mapping", "fail"]


#: Prints what doctor says of the engines.
LOOK = """
from lucky_transport.diagnosis import machine
from lucky_transport.diagnosis.check import Roots
row = machine.engines(Roots())
print(f"{row.verdict}: {row.seen} | {row.remedy}")
"""

#: Serves the toy engine, with what a container has to itself mounted before, until it is killed.
SERVE = """
import subprocess, sys, time
name, *own = sys.argv[1:]
for place in own:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
from lucky_transport import api
with api.serve("toy", f"shm://{name}"):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("flags", "own", "what", "remedy"),
    [
        (PID, "/dev/shm", "not in /dev/shm, but listening: ", "share /dev/shm"),
        (("--mount",), "/dev/shm", "not in /dev/shm, but listening: ", "share /dev/shm"),
        (PID, "", "out of reach for commands: ", "share the runtime directory"),
        (PID, None, "in other containers: ", ""),  # it shares all
    ],
)
def test_an_engine_in_a_container_is_named_with_the_directory_that_it_does_not_share(
    flags: tuple[str, ...], own: str | None, what: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(PID, flags)
    name = unique_name()
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        with boxed(flags, "-c", SERVE, name, *([] if own is None else [own or runtime])) as box:
            assert box.line() == "ready"
            with boxed(flags, "-c", LOOK) as other:
                said = other.line()
    assert said.startswith("warn: ") or not remedy
    named = said.partition(what)[2]  # beside other engines of this machine
    assert name in named.partition(" | ")[0]
    assert remedy or said.count(name) == 1
    assert remedy in said
