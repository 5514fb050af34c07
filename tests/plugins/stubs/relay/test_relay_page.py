"""The page tells users of every difference that a relay makes, and each is of a case."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="the cases are about grpc")

from tests.plugins.stubs.differential.comparing import load_cases
from tests.plugins.stubs.differential.relayed import RELAY_DIFFERENCES, RelayDifference, table
from tests.support.pages import DOCS


def test_the_page_shows_the_table_of_differences() -> None:
    _, _, after = (
        (DOCS / "how-to" / "relay.md").read_text(encoding="utf-8").partition("<!-- differences of a relay -->\n")
    )
    assert after.partition("\n\n")[0].splitlines()[2:] == table()


@pytest.mark.parametrize("difference", RELAY_DIFFERENCES, ids=lambda one: one.cases[0])
def test_every_pattern_of_a_difference_is_of_a_case(difference: RelayDifference) -> None:
    for pattern in difference.cases:
        alone = RelayDifference((pattern,), (), "", "")
        assert any(map(alone.is_about, load_cases())), pattern
    assert set(difference.endless) <= set(difference.cases)
