"""The fixtures of the quick tests, and a team's server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from lucky_transport.process import unique_name
from tests.plugins.stubs.run.conftest import *  # noqa: F403
from tests.support.forked_programs import Program
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

#: Serves with these options, at a port and in shared memory; gives the target, and the pair for --map.
Served = Callable[..., AbstractContextManager[tuple[str, str]]]


@pytest.fixture
def served(start_switched: Callable[..., Program], weather: WeatherPrograms) -> Served:
    @contextmanager
    def serve(*options: str) -> Iterator[tuple[str, str]]:
        endpoint = f"shm://{unique_name()}"
        _, *command = weather.server(0, *options)
        server = start_switched("--transport", "shm", "--serve", f"127.0.0.1:*={endpoint}", command=command)
        try:
            target = f"127.0.0.1:{server.stdout.readline().split()[-1]}"
            yield target, f"{target}={endpoint}"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)

    return serve
