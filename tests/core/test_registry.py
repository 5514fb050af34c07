"""Plugins are found by entry points, without `importlib.metadata`, guarded, and named in every error."""

import gc
import importlib
import re
import sys
import weakref
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from importlib.metadata import DistributionFinder
from pathlib import Path

import pytest

from lucky_transport.errors import BrokenPlugin, MissingExtra, UnknownName
from lucky_transport.registry import EntryPoint, discover, entry_points, load, registry
from lucky_transport.version import install_command

GOOD = """
from lucky_transport.hookspecs import EngineInfo, TransportInfo, hookimpl

@hookimpl
def lucky_transport_transports():
    return [TransportInfo("carrier", ("pigeon", "owl"), "nowhere:client", "nowhere:server", "slow")]

@hookimpl
def lucky_transport_engines():
    return [EngineInfo("{name}", "nowhere:make", "rests")]
"""


HOOK = """
from lucky_transport.hookspecs import hookimpl

@hookimpl
def lucky_transport_engines():
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path for modules of this test, which are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _point(folder: Path, name: str, text: str) -> EntryPoint:
    (folder / f"plugin_of_{name}.py").write_text(text)
    importlib.invalidate_caches()
    return EntryPoint(name, f"plugin_of_{name}")


def test_the_installed_plugins_are_found() -> None:
    found = registry()
    assert {"shm", "grpc", "inproc"} <= set(found.transports)
    assert {"toy", "mujoco", "gymnasium"} <= set(found.engines)
    assert {"serve", "ls", "doctor"} <= set(found.commands)
    assert found.broken == {}


def test_a_plugin_is_found_by_its_entry_point(modules: Path) -> None:
    found = discover([_point(modules, "good", GOOD.format(name="stone"))])
    assert found.transport("carrier").summary == "slow"
    assert found.transport_of_scheme("owl").name == "carrier"
    assert found.engine("stone").summary == "rests"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import a_package_nobody_has", "ModuleNotFoundError: No module named 'a_package_nobody_has'"),
        ("raise RuntimeError('half installed')", "RuntimeError: half installed"),
        ("this is no Python", "SyntaxError"),
        ("raise SystemExit(4)", "SystemExit: 4"),
        *(
            (f"{HOOK}    {body}", "")
            for body in ("raise ValueError('in the hook')", "raise SystemExit(4)", "return 5", "return [None]")
        ),
    ],
)
def test_a_broken_plugin_hides_no_other(modules: Path, text: str, said: str) -> None:
    points = [
        _point(modules, "bad", text),
        _point(modules, "good", GOOD.format(name="stone")),
    ]
    found = discover(points)
    assert set(found.broken) == {"bad"}
    assert {"stone", "toy"} <= set(found.engines)
    assert "inproc" in found.transports
    with pytest.raises(BrokenPlugin, match=rf"plugin 'bad' failed to load: {said}") as refused:
        found.transport("bad")
    assert refused.value.__cause__ is found.broken["bad"]
    assert "doctor" in refused.value.hint


TRANSPORTS = "grpc, holodeck, inproc, openenv, openra, pipe, ray, recorded, shm, staged"
ENGINES = "cartpole, echo, gymnasium, libenv, mujoco, pendulum, skirmish, toy"


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("transport", "shn", f"no transport 'shn'; did you mean 'shm'? known: {TRANSPORTS}"),
        ("transport", "carrier", f"no transport 'carrier'; known: {TRANSPORTS}"),
        ("engine", "mojoco", f"no engine 'mojoco'; did you mean 'mujoco'? known: {ENGINES}"),
        (
            "transport_of_scheme",
            "http",
            "no endpoint scheme 'http'; known: "
            "grpc, grpc+unix, holodeck, inproc, openenv, openra, pipe, ray, recorded, shm, staged",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(kind: str, name: str, text: str) -> None:
    with pytest.raises(UnknownName) as refused:
        getattr(registry(), kind)(name)
    assert str(refused.value) == text


NEEDS = "transport 'carrier' needs the package '{}', which is not installed; " + install_command("carrier")
FAILED = r"transport 'carrier' failed to load: \w+Error: "


@pytest.mark.parametrize(
    ("text", "extra", "kind", "said"),
    [
        (
            "import a_package_nobody_has.inside",
            "carrier",
            MissingExtra,
            re.escape(NEEDS.format("a_package_nobody_has")),
        ),
        *(
            (f"raise ModuleNotFoundError('', name='{name}')", "carrier", MissingExtra, re.escape(NEEDS.format(package)))
            for name, package in (("google", "protobuf"), ("grpc", "grpcio"))  # as pip calls it
        ),
        ("import a_package_nobody_has", "", BrokenPlugin, FAILED),
        ("import lucky_transport.no_such_module", "carrier", BrokenPlugin, FAILED),
        ("raise OSError('libcuda')", "carrier", BrokenPlugin, FAILED),
        ("client_is_missing = 1", "carrier", BrokenPlugin, FAILED),
        (None, "carrier", BrokenPlugin, "No module named 'not_loaded'"),
    ],
)
def test_what_cannot_be_loaded_lacks_an_extra_or_is_broken(
    modules: Path, text: str | None, extra: str, kind: type[Exception], said: str
) -> None:
    if text is not None:
        (modules / "not_loaded.py").write_text(text)
    with pytest.raises(kind, match=said):
        load("not_loaded:client", owner="transport 'carrier'", extra=extra)


def test_a_failed_load_keeps_nothing_of_its_caller_alive(modules: Path) -> None:
    (modules / "lacking.py").write_text("import no_such_package")
    (modules / "wrong.py").write_text("1 / 0")

    class Held:
        """What a caller has at hand while it loads."""

    def attempt(target: str) -> weakref.ref[Held]:
        held = Held()
        with suppress(MissingExtra, BrokenPlugin):
            load(target, owner="the test", extra="peers")
        return weakref.ref(held)

    gc.disable()
    try:
        for target in ("lacking:client", "wrong:client", "nowhere:client"):
            assert attempt(target)() is None, target
    finally:
        gc.enable()


GROUPS = ("console_scripts", "lucky_transport", "pytest11", "no_such_group")


def _install(folder: Path, distribution: str, text: str) -> Path:
    """Put a distribution with these entry points into a folder; return the folder."""
    info = folder / f"{distribution}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {distribution.partition('-')[0]}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(text)
    return folder


def _ours(group: str) -> list[str]:
    return [point.name for point in entry_points(group)]


def _theirs(group: str) -> list[str]:
    return [point.name for point in metadata.entry_points(group=group)]


@pytest.mark.parametrize("group", GROUPS)
def test_the_installed_entry_points_are_found_and_load(group: str) -> None:
    assert sorted(_ours(group)) == sorted(_theirs(group))
    for point in entry_points("lucky_transport"):
        assert point.load() is sys.modules[f"{point.load().__name__}"]  # pyright: ignore[reportAttributeAccessIssue]


def test_an_entry_point_names_a_module_or_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "module = json\nfunction = os:path.join\nwith_extra = json:dumps [fast]\n"
    text = f"[others]\nmodule = nowhere\n\n[of.test]\n# a comment = no point\n{points}"
    monkeypatch.syspath_prepend(str(_install(tmp_path, "named-1", text)))
    loaded = {point.name: point.load() for point in entry_points("of.test")}
    assert loaded == {point.name: point.load() for point in metadata.entry_points(group="of.test")}
    assert len(loaded) == 3


def test_of_a_distribution_there_twice_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_install(tmp_path / "second", "Two_Names-1", "[of.test]\nold = json\n")))
    monkeypatch.syspath_prepend(str(_install(tmp_path / "first", "two.names-2", "[of.test]\nnew = json\n")))
    assert _ours("of.test") == _theirs("of.test") == ["new"]


def test_missing_places_and_unreadable_files_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "binary-1", "").joinpath("binary-1.dist-info", "entry_points.txt").write_bytes(b"\xff\xfe[of")
    (tmp_path / "without-1.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "nowhere"))
    assert _ours("of.test") == []


def test_a_distribution_in_a_zip_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _install(tmp_path / "folder", "zipped-1", "[of.test]\nzipped = json\n")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder))
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    assert _ours("of.test") == ["zipped"]


def test_what_a_finder_of_others_finds_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = _install(tmp_path, "hidden-1", "[of.test]\nhidden = json\n") / "hidden-1.dist-info"

    class Finder(DistributionFinder):
        def find_distributions(self, context: DistributionFinder.Context | None = None) -> list[metadata.Distribution]:
            return [metadata.Distribution.at(info)]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert _ours("of.test") == ["hidden"]
