"""Registers the planted transport for the tests of this folder."""

from collections.abc import Generator

import pytest

from tests.planted import tools


@pytest.fixture(scope="module", autouse=True)
def registered(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch, tools.site(tmp_path_factory.mktemp("site"), patch):
        tools.engines_in_this_process(patch)
        yield
