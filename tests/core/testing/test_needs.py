"""A test of a contract runs where its suite has what it needs: elsewhere it is deselected, or skips and says why."""

from __future__ import annotations

import importlib

import pytest

pytest_plugins = ["pytester"]

# pytester forgets modules that a run inside it imports first.
for _name in ("contract", "dial", "needs"):
    importlib.import_module(f"lucky_transport.testing.{_name}")

SUITE = """
from lucky_transport.testing.engine_contract import EngineContract
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities

INPROC = dict(zero_copy=True, streams=True, sessions=True, async_envs=True)

@needs("streams")
class Contract(TransportSuite):
    endpoint = "inproc://{name}"

    def test_streams(self):
        with self.open_client() as client:
            assert client.capabilities.streams

    @needs("images", "streams")
    def test_images(self):
        with self.open_client():
            raise AssertionError("it goes on where there are no images")

    @needs("has_deadlines")
    def test_deadlines(self):
        assert self.has_deadlines

    @needs()
    def test_any(self):
        pass
"""
LACKING = "class TestIt(Contract):\n  has_deadlines = False\n  declares = Capabilities(**INPROC)"
PLUGIN = ("-p", "lucky_transport.testing.needs")
NAMES = "names_itself_and_has_the_capabilities_that_its_suite_declares"


def run(pytester: pytest.Pytester, suite: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(SUITE + suite)
    return pytester.runpytest_inprocess("-v", "-rs", "-p", "no:cacheprovider", *arguments)


def test_what_a_class_declares_not_to_have_is_deselected(pytester: pytest.Pytester) -> None:
    done = run(
        pytester, "class TestIt(Contract):\n  has_deadlines = False\n  declares = Capabilities(**INPROC)", *PLUGIN
    )
    done.assert_outcomes(passed=3, deselected=2)
    assert "test_images" not in done.stdout.str()
    assert "test_deadlines" not in done.stdout.str()


def test_without_the_plugin_it_skips_and_names_the_class_and_the_need(pytester: pytest.Pytester) -> None:
    done = run(pytester, LACKING)
    done.assert_outcomes(passed=3, skipped=2)
    done.stdout.fnmatch_lines(["*: TestIt declares images=False", "*: TestIt declares has_deadlines=False"])


def test_a_class_that_declares_nothing_skips_once_it_connects_to_less(pytester: pytest.Pytester) -> None:
    done = run(pytester, "class TestIt(Contract):\n  pass", *PLUGIN)
    done.assert_outcomes(passed=4, skipped=1)
    done.stdout.fnmatch_lines(["*: transport 'inproc' declares no images"])


@pytest.mark.parametrize("wrong", [{"streams": False}, {"images": True}])
def test_a_declaration_that_is_not_the_transports_fails(pytester: pytest.Pytester, wrong: dict[str, bool]) -> None:
    suite = f"class TestIt(Contract):\n  declares = Capabilities(**INPROC | {wrong})"
    run(pytester, suite, "-k", NAMES, *PLUGIN).assert_outcomes(failed=1, deselected=4)


def test_a_test_that_is_inapplicable_is_deselected(pytester: pytest.Pytester) -> None:
    suite = "class TestIt(Contract):\n  inapplicable = {'test_images': 'it shows none'}"
    run(pytester, suite, *PLUGIN).assert_outcomes(passed=4, deselected=1)
    done = run(pytester, suite)
    done.assert_outcomes(passed=4, skipped=1)
    done.stdout.fnmatch_lines(["*: it shows none"])


def test_a_name_of_no_test_is_a_wrong_declaration(pytester: pytest.Pytester) -> None:
    done = run(pytester, "class TestIt(Contract):\n  inapplicable = {'test_image': 'a slip'}", *PLUGIN)
    done.assert_outcomes(errors=5)


@pytest.mark.parametrize(("declared", "outcome"), [("seeds = False", "passed"), ("hold = False", "failed")])
def test_an_engines_class_that_declares_what_is_not_so_fails(
    pytester: pytest.Pytester, declared: str, outcome: str
) -> None:
    suite = (
        f"from lucky_transport.testing.dial import DialEngine\nclass TestIt(EngineContract):\n  {declared}\n"
        "  def make_engine(self, num_envs):\n    return DialEngine(num_envs)"
    )
    done = run(pytester, suite, "-k", "test_the_suite_declares or test_the_same_seeds or test_holding", *PLUGIN)
    assert done.parseoutcomes()[outcome] == 1 + (outcome == "passed")


def test_tests_of_no_suite_are_left_alone(pytester: pytest.Pytester) -> None:
    run(pytester, "class TestIt:\n  def test(self):\n    pass\ndef test():\n  pass", *PLUGIN).assert_outcomes(passed=2)
