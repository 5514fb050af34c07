"""Checks of what is installed, against metadata that was made to look so."""

from __future__ import annotations

from collections.abc import Callable
from email.message import Message
from importlib import metadata

import pytest

from lucky_transport.diagnosis import packages
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.diagnosis.packages import Requirement
from lucky_transport.errors import BrokenPlugin
from lucky_transport.hookspecs import EngineInfo, TransportInfo
from lucky_transport.registry import Registry
from lucky_transport.version import install_command

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


def test_every_requirement_of_ours_can_be_read() -> None:
    for line in metadata.requires(packages.DISTRIBUTION) or []:
        assert Requirement.parse(line).name


def test_extras_in_a_circle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines_of_metadata(monkeypatch, one=["lucky-transport[two]", "numpy"], two=["lucky-transport[one]"])
    assert [one.name for one in packages.requirements()["two"]] == ["numpy"]


def test_the_versions_of_all_that_is_needed_are_shown() -> None:
    row = packages.versions(HERE)
    assert row.verdict is CheckStatus.OK
    for name in ("lucky-transport", "numpy", "gymnasium", "click"):
        assert f"{name} {metadata.version(name)}" in row.seen


NUMPY = f"numpy {metadata.version('numpy')} is installed, needed is "
ABSENT = "a_package_nobody_has"


@pytest.mark.parametrize(
    ("check", "extras", "verdict", "says"),
    [
        (packages.versions, {"always": ["numpy>=999"]}, CheckStatus.FAIL, f"{NUMPY}>=999"),
        (packages.versions, {"always": ["numpy>=1,<1.1"]}, CheckStatus.FAIL, f"{NUMPY}<1.1"),
        (packages.versions, {"always": [ABSENT]}, CheckStatus.FAIL, f"{ABSENT} is not installed"),
        (
            packages.extras,
            {"pigeon": [f"{ABSENT}>=2"], "shm": [], "dev": ["another_one"]},
            CheckStatus.OK,
            f"installed: shm; not installed: pigeon ({install_command('EXTRA')} brings one)",
        ),
        (packages.extras, {"pigeon": ["numpy>=999", ABSENT], "shm": []}, CheckStatus.WARN, "wrong: pigeon (numpy "),
        (packages.extras, {"shm": [], "numbers": ["numpy"]}, CheckStatus.OK, "installed: shm, numbers"),
    ],
)
def test_what_is_not_met_is_said_as_failure_or_loss(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Roots], Check],
    extras: dict[str, list[str]],
    verdict: CheckStatus,
    says: str,
) -> None:
    require(monkeypatch, **extras)
    row = check(HERE)
    assert row.verdict is verdict
    assert says in row.seen
    assert row.remedy == (install_command("pigeon") if verdict is CheckStatus.WARN else row.remedy)


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
def test_versions_are_compared_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch, installed: str, needed: str, met: bool
) -> None:
    require(monkeypatch, always=[f"numpy>={needed}"])
    monkeypatch.setattr(packages.metadata, "version", lambda name: installed)
    assert (packages.versions(HERE).verdict is CheckStatus.OK) == met


WORKING = {"toy": EngineInfo("toy", "lucky_transport.engines.toy_composite:make_engine", "works")}
PIGEON = TransportInfo("pigeon", ("pigeon",), "lucky_transport_pigeon:connect", "x:y", "carries letters")
EXTRA = EngineInfo("pigeon", "lucky_transport_pigeon:make_engine", "flies", extra="pigeon")


@pytest.mark.parametrize(
    ("found", "verdict", "says"),
    [
        (Registry(engines=WORKING), CheckStatus.OK, "usable: toy"),
        (
            Registry(engines=WORKING, broken={"pigeon": BrokenPlugin("it flew away")}),
            CheckStatus.FAIL,
            "pigeon: BrokenPlugin: it flew away",
        ),
        (Registry(transports={"pigeon": PIGEON}), CheckStatus.FAIL, "transport 'pigeon' failed to load"),
        (Registry(engines={"pigeon": EXTRA}), CheckStatus.OK, ""),  # left to the check of the extras
    ],
    ids=["loads", "cannot be imported", "code does not load", "lacks its extra"],
)
def test_plugins_are_tried(monkeypatch: pytest.MonkeyPatch, found: Registry, verdict: CheckStatus, says: str) -> None:
    require(monkeypatch, pigeon=[ABSENT])
    row = packages.broken_plugins(HERE, found)
    assert row.verdict is verdict
    assert says in row.seen
