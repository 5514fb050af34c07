"""The README tells users of every intended difference, the page of relays of every one that a relay makes, and of no
other; each is of a case that exists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the cases are about grpc")

from tests.support.pages import DOCS

from .comparing import load_cases
from .declared import table
from .relayed import RELAY_DIFFERENCES, RelayDifference
from .relayed import table as relay_table

README = Path(__file__).parents[4] / "plugins" / "lucky_transport_stubs" / "README.md"


def test_the_readme_shows_the_table_of_intended_differences() -> None:
    _, _, after = README.read_text(encoding="utf-8").partition("<!-- intended differences -->\n")
    shown = [line for line in after.partition("\n\n##")[0].splitlines() if line.startswith("| `")]
    assert shown == table()


def test_the_page_of_relays_shows_the_table_of_their_differences() -> None:
    page = (DOCS / "how-to" / "relay.md").read_text(encoding="utf-8")
    _, _, after = page.partition("<!-- differences of a relay -->\n")
    assert after.partition("\n\n")[0].splitlines()[2:] == relay_table()


@pytest.mark.parametrize("difference", RELAY_DIFFERENCES, ids=lambda one: one.cases[0])
def test_every_difference_of_a_relay_is_of_cases_that_exist(difference: RelayDifference) -> None:
    for pattern in difference.cases:
        alone = RelayDifference((pattern,), (), "", "")
        assert any(map(alone.is_about, load_cases())), pattern
    assert set(difference.endless) <= set(difference.cases)
