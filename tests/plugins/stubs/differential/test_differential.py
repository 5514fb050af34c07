"""Cases of threads and of asyncio over real gRPC and over ours: the same record, but for what is declared.

Of each kind of case a sixth part; the rest are in tests/exhaustive. The README and the page of relays tell users of
every intended difference, and of no other.
"""

from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from tests.support.pages import DOCS

from .comparing import judge, load_cases
from .declared import DIFFERENCES, table
from .registry import Case, quick
from .relayed import RELAY_DIFFERENCES, RelayDifference
from .relayed import table as relay_table

CASES = load_cases()
README = Path(__file__).parents[4] / "plugins" / "lucky_transport_stubs" / "README.md"


@pytest.mark.filterwarnings(  # of grpc.aio's own, up to 1.60 at least, after an interceptor has failed
    "ignore:Exception ignored in. <function InterceptedCall:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("case", quick(CASES), ids=lambda case: case.name)
def test_ours_does_what_grpc_does(case: Case) -> None:
    judge(case)


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_every_declared_difference_is_of_a_case_that_exists() -> None:
    known = {name for case in CASES for name in (case.name, case.name.partition("[")[0])}
    assert {name for one in DIFFERENCES for name in one.cases} <= known


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
        assert any(map(alone.is_about, CASES)), pattern
    assert set(difference.endless) <= set(difference.cases)
