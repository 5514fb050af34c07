"""What a contract's test needs, and what a suite's class declares, so that no test runs that cannot apply.

A need is an attribute of the suite, or of the `Capabilities` that it declares. A test is skipped where a need is False.
As a plugin of pytest, this module deselects it instead: `pytest_plugins = ["lucky_transport.testing.needs"]` in your
`conftest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def needs(*names: str) -> Callable[[T], T]:
    """Decorate a test with what it needs, or a class with what those of its tests need that are not decorated."""

    def decorate(target: Any) -> Any:
        tests: Iterable[Any] = vars(target).values() if isinstance(target, type) else [target]
        for each in tests:
            if getattr(each, "__name__", "").startswith("test_"):
                each.__dict__.setdefault("needs", names)
        return target

    return decorate


class Suite:
    """Tests to inherit, those of which are run that apply."""

    #: The tests that do not apply, by name, and why: what the transport's own protocol has no room for.
    inapplicable: Mapping[str, str] = {}

    @pytest.fixture(autouse=True)
    def skip_inapplicable(self, request: pytest.FixtureRequest) -> None:
        """Skip the test where it is declared not to apply; fail where no test has a declared name."""
        assert not [name for name in self.inapplicable if not hasattr(self, name)]
        if why := _why_not(type(self), request.function):
            pytest.skip(why)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that do not apply."""
    gone = {item for item in items if _why_not(getattr(item, "cls", None), getattr(item, "function", None))}
    config.hook.pytest_deselected(items=[item for item in items if item in gone])
    items[:] = [item for item in items if item not in gone]


def _why_not(suite: Any, test: Any) -> str:
    """Return why a test does not apply by what its suite's class declares; "" where it may, or is in no suite."""
    if not (isinstance(suite, type) and issubclass(suite, Suite)):
        return ""
    for name in getattr(test, "needs", ()):
        if getattr(suite, name, getattr(getattr(suite, "declares", None), name, None)) is False:
            return f"{suite.__name__} declares {name}=False"
    return suite.inapplicable.get(test.__name__, "")
