"""Entry points are those that `importlib.metadata` finds, without its import."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from importlib.metadata import DistributionFinder
from pathlib import Path

import pytest

from lucky_transport.entry_points import entry_points
from tests.support.waiting import PATIENCE_S

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


def test_of_a_distribution_that_is_on_the_path_twice_the_first_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(_install(tmp_path / "second", "Two_Names-1", "[of.test]\nold = json\n")))
    monkeypatch.syspath_prepend(str(_install(tmp_path / "first", "two.names-2", "[of.test]\nnew = json\n")))
    assert _ours("of.test") == _theirs("of.test") == ["new"]


def test_places_that_are_not_there_and_files_that_cannot_be_read_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_registry_is_built_without_importlib_metadata() -> None:
    program = "import sys; from lucky_transport.registry import registry; registry(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert "lucky_transport_shm.plugin" in done.stdout.split()
    assert "importlib.metadata" not in done.stdout.split()
