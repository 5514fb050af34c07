"""`[gate]` of lucky_transport.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bounds import error_of_look, needed_trials, upper_bound
from lucky_transport_migration.gate.limits import Limits


def test_without_a_file_the_defaults_fit_together(tmp_path: Path) -> None:
    limits = Limits.load(tmp_path)
    assert limits == Limits()
    assert upper_bound(0, limits.calls, limits.confidence) <= limits.mismatch_limit


def test_the_page_says_how_many_calls_the_default_limit_needs() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "how-to" / "gate.md").read_text().split())
    one, ten, all_of_them = (_needed(methods=methods) for methods in (1, 10, 72))
    counts = f"at the first look, {ten} of each of 10 methods and {all_of_them} of each of 72"
    assert f"needs {one} requests of a single method {counts}" in page
    fifth, fiftieth = (_needed(look=look) for look in (5, 50))
    assert f"needs {one} requests at the first look, {fifth} at the fifth and {fiftieth} at the fiftieth" in page


def _needed(methods: int = 1, look: int = 1) -> str:
    limits = Limits()
    error = error_of_look(1 - limits.confidence, look)
    return f"{needed_trials(0, limits.mismatch_limit, 1 - error / methods):,}"


def test_the_file_says_otherwise(tmp_path: Path) -> None:
    rows = "calls = 1\nslower_limit = 2\ntail_limit = 3\ndemote = false\n"
    (tmp_path / "lucky_transport.toml").write_text(f"[gate]\n{rows}")
    assert Limits.load(tmp_path) == Limits(calls=1, slower_limit=2, tail_limit=3, demote=False)


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        ("calls = 0", "a whole number of calls from 1"),
        ("calls = true", "a whole number of calls from 1"),
        ("calls = 10.5", "a whole number of calls from 1"),
        ("mismatch_limit = 0", "a rate between 0 and 1"),
        ("mismatch_limit = '1%'", "a rate between 0 and 1"),
        ("slower_limit = 0.9", "a ratio from 1"),
        ("slower_limit = nan", "a ratio from 1"),
        ("tail_limit = 0.9", "a ratio from 1"),
        ("confidence = 1", "a share from 0.5"),
        ("demote = 'no'", "true or false"),
        ("cool_down_s = -1", "seconds >= 0"),
        ("cool_down_s = inf", "seconds >= 0"),
        (f"cool_down_s = 1{'0' * 400}", "seconds >= 0"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_a_remedy(tmp_path: Path, row: str, remedy: str) -> None:
    (tmp_path / "lucky_transport.toml").write_text(f"[gate]\n{row}\n")
    with pytest.raises(ConfigError) as caught:
        Limits.load(tmp_path)
    key = row.partition(" ")[0]
    assert str(tmp_path / "lucky_transport.toml") in str(caught.value)
    assert f"{key} = " in str(caught.value)
    assert remedy in caught.value.hint


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[gate]\nmismatch_limits = 0.1\n")
    with pytest.raises(ConfigError, match="did you mean 'mismatch_limit'"):
        Limits.load(tmp_path)
