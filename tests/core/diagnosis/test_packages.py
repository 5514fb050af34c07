"""Checks of what is installed, against metadata that was made to look so."""

from __future__ import annotations

from email.message import Message
from importlib import metadata

import pytest

from lucky_transport.diagnosis import packages
from lucky_transport.diagnosis.check import CheckStatus, Roots
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


def test_extras_in_a_circle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines_of_metadata(monkeypatch, one=["lucky-transport[two]", "numpy"], two=["lucky-transport[one]"])
    assert [one.name for one in packages.requirements()["two"]] == ["numpy"]


def test_an_extra_is_not_installed_by_us_alone() -> None:
    assert {one.name for one in packages.requirements()["openra"]} >= {"grpcio", "protobuf"}


def test_no_package_is_listed_twice() -> None:
    listed = [one.partition(" ")[0] for one in packages.versions(HERE).seen.split(", ")]
    assert len(listed) == len(set(listed)), listed


def test_the_versions_of_all_that_is_needed_are_shown() -> None:
    row = packages.versions(HERE)
    assert row.verdict is CheckStatus.OK
    for name in ("lucky-transport", "numpy", "gymnasium", "click"):
        assert f"{name} {metadata.version(name)}" in row.seen


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("numpy>=999", f"numpy {metadata.version('numpy')} is installed, needed is >=999"),
        ("numpy>=1,<1.1", f"numpy {metadata.version('numpy')} is installed, needed is <1.1"),
        ("a_package_nobody_has", "a_package_nobody_has is not installed"),
    ],
)
def test_a_need_that_is_not_met_is_a_failure(monkeypatch: pytest.MonkeyPatch, line: str, says: str) -> None:
    require(monkeypatch, always=[line])
    row = packages.versions(HERE)
    assert row.verdict is CheckStatus.FAIL
    assert says in row.seen


def test_an_extra_that_nobody_asked_for_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, pigeon=["a_package_nobody_has>=2"], shm=[], dev=["another_one"])
    row = packages.extras(HERE)
    assert row.verdict is CheckStatus.OK
    assert row.seen == f"installed: shm; not installed: pigeon ({install_command('EXTRA')} brings one)"


def test_an_extra_of_another_version_is_a_loss_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(monkeypatch, pigeon=["numpy>=999", "a_package_nobody_has"], shm=[])
    row = packages.extras(HERE)
    assert row.verdict is CheckStatus.WARN
    assert "wrong: pigeon (numpy " in row.seen
    assert row.remedy == install_command("pigeon")


def test_all_extras_there_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, shm=[], numbers=["numpy"])
    assert packages.extras(HERE).seen == "installed: shm, numbers"
    assert packages.extras(HERE).verdict is CheckStatus.OK


WORKING = EngineInfo("toy", "lucky_transport.engines.toy_composite:make_engine", "works")


def test_plugins_that_load_are_named() -> None:
    row = packages.broken_plugins(HERE, Registry(engines={"toy": WORKING}))
    assert (row.verdict, row.seen) == (CheckStatus.OK, "usable: toy")


def test_a_plugin_that_cannot_be_imported_is_a_failure() -> None:
    found = Registry(engines={"toy": WORKING}, broken={"pigeon": BrokenPlugin("it flew away")})
    row = packages.broken_plugins(HERE, found)
    assert row.verdict is CheckStatus.FAIL
    assert row.seen == "pigeon: BrokenPlugin: it flew away"


def test_a_plugin_whose_code_does_not_load_is_a_failure() -> None:
    pigeon = TransportInfo("pigeon", ("pigeon",), "lucky_transport_pigeon:connect", "x:y", "carries letters")
    row = packages.broken_plugins(HERE, Registry(transports={"pigeon": pigeon}))
    assert row.verdict is CheckStatus.FAIL
    assert "transport 'pigeon' failed to load" in row.seen


def test_a_plugin_that_lacks_its_extra_is_left_to_the_check_of_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, pigeon=["a_package_nobody_has"])
    info = EngineInfo("pigeon", "lucky_transport_pigeon:make_engine", "flies", extra="pigeon")
    assert packages.broken_plugins(HERE, Registry(engines={"pigeon": info})).verdict is CheckStatus.OK
