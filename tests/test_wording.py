"""Counts in sentences, and that sentences with counts use them."""

import re
from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError, plural

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("count", "text"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls"), (1024, "1,024 calls")])
def test_one_is_singular_and_thousands_are_separated(count: int, text: str) -> None:
    assert plural(count, "call") == text


def test_a_noun_may_have_a_plural_of_its_own() -> None:
    assert (plural(1, "process", "processes"), plural(3, "process", "processes")) == ("1 process", "3 processes")


def test_what_users_read_of_counts_goes_through_it() -> None:
    """In the output of commands and in reports: a count with thousands separators that a plural follows."""
    counted = re.compile(r"\{[^{}]*:,\} (calls|methods|steps|envs|process|exchanges|values|rows|places|files|requests)")
    hits = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("lucky_transport", "plugins", "migration/lucky_transport_migration")
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if counted.search(line)
    ]
    assert hits == []


def test_a_hint_that_the_message_ends_with_is_not_given_twice() -> None:
    inner = ConfigError("lucky_transport.toml: calls = 'many'", hint="expected a whole number")
    outer = ConfigError(f"here: {inner}", hint=inner.hint)
    assert str(outer) == "here: lucky_transport.toml: calls = 'many'; expected a whole number"
    assert outer.hint == "expected a whole number"
