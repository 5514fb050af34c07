"""Checks of what is installed and of what containers share, against files that were made to look so."""

import tempfile
from collections.abc import Callable
from email.message import Message
from importlib import metadata

import pytest

from lucky_transport.diagnosis import packages
from lucky_transport.diagnosis.check import Check, Roots
from lucky_transport.diagnosis.packages import Requirement
from lucky_transport.errors import BrokenPlugin
from lucky_transport.hookspecs import EngineInfo, TransportInfo
from lucky_transport.process import unique_name
from lucky_transport.registry import Registry
from lucky_transport.version import install_command
from tests.support.boxes import PID, boxed, needs

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
