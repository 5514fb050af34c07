"""The side-by-side suite for a team's own engine: `pytest --lucky-between grpc,shm`.

    def test_my_policy(lucky_side_by_side):
        with lucky_side_by_side("mujoco:quadruped", num_envs=4, seed=1) as env:
            observations, _ = env.reset(seed=1)
            for _ in range(200):
                observations, *_ = env.step(policy(observations))

    @pytest.mark.lucky(engine="my_team.engines:make_arm", num_envs=4)
    def test_training(lucky_env):                                 # the same, with the env of the marker's engine
        train(lucky_env, steps=1000)

    @pytest.fixture
    def stub(lucky_grpc):                  # tests of a gRPC service of the team's own run twice: over gRPC, and over
        server = grpc.server(...)          # shared memory, server and channel as they are

A test of an engine runs once. What it does is done over all transports at once and compared.
A session that does not use it pays for nothing: this file imports pytest alone, everything else where it is used.
Without transports to compare, these tests are skipped and say how to run them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lucky_transport.env.vector_env import VectorEnv
    from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
    from lucky_transport_migration.side_by_side.hooks import Hooks


_HOOKS = "lucky_transport side by side"

#: The paths that gRPC services of a team's own have; an engine has more.
_OF_SERVICES = ("grpc", "shm")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lucky_transport", "engines and gRPC services side by side over several transports")
    group.addoption("--lucky-between", metavar="PATHS", help="Paths to compare, the baseline first, e.g. grpc,shm.")
    group.addoption("--lucky-engine", metavar="ENGINE", help="The engine of tests that name none.")
    parser.addini("lucky_between", "paths to compare where --lucky-between is not given, e.g. grpc,shm")
    parser.addini("lucky_engine", "the engine of tests that name none: 'mujoco:quadruped' or 'module:function'")
    parser.addini("lucky_endpoints", "where engines run already, lines like grpc = grpc://127.0.0.1:50051", "linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "lucky(engine='', num_envs=1, seed=0, options={}, endpoints={}): the engine of lucky_env, and of "
        "lucky_side_by_side where it is given none",
    )
    text: str = config.getoption("--lucky-between") or config.getini("lucky_between")
    if not text:
        return
    names = [name.strip() for name in text.split(",")]
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise pytest.UsageError(f"--lucky-between {text}: name at least two different paths, e.g. grpc,shm")
    from lucky_transport.errors import ConfigError
    from lucky_transport_migration.side_by_side.hooks import Hooks

    try:
        config.pluginmanager.register(Hooks(names), _HOOKS)
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    hooks = metafunc.config.pluginmanager.get_plugin(_HOOKS)
    names = [name for name in hooks.between if name in _OF_SERVICES] if hooks is not None else []
    if names and "lucky_grpc" in metafunc.fixturenames:
        metafunc.parametrize("lucky_grpc", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def lucky_grpc(request: pytest.FixtureRequest) -> str:
    """What the gRPC channels and servers of this test go over: "grpc", or with --lucky-between "shm" as well.

    Ask for it where a server and its channel are made, or in `usefixtures` of the configuration. Whatever asks for it
    is made anew for each. A test whose calls all stayed on gRPC where they were to go over shared memory fails.
    """
    return getattr(request, "param", "grpc")


@pytest.fixture
def lucky_tally(request: pytest.FixtureRequest) -> Generator[ComparisonCounts]:
    """What this test compares, for its own report and for the summary."""
    from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
    from lucky_transport_migration.side_by_side.hooks import PROPERTY

    running = _hooks(request).running_counts
    counts = running[request.node.nodeid] = ComparisonCounts(tests=1)
    yield counts
    del running[request.node.nodeid]
    request.node.user_properties.append((PROPERTY, counts.plain()))


@pytest.fixture
def lucky_side_by_side(
    request: pytest.FixtureRequest, lucky_tally: ComparisonCounts
) -> Callable[..., AbstractContextManager[VectorEnv]]:
    """Open an env that is several engines side by side: called with an engine, used by `with`.

    Further arguments: options, endpoints, between, and what `lucky_transport.env.vector_env.VectorEnv` takes. What is
    not given comes from the marker `lucky`, then from the configuration. Each step, reset and typed call
    (`env.client.scene...`) is made over all transports and compared; the first difference fails the test.
    """
    from lucky_transport_migration.side_by_side.hooks import engines_of

    hooks = _hooks(request)

    def side_by_side(
        engine: Any = None, *, between: tuple[str, ...] = (), **arguments: Any
    ) -> AbstractContextManager[VectorEnv]:
        engines, env = engines_of(request.node, {"engine": engine, **arguments})
        return hooks.side_by_side(engines, lucky_tally, between, **env)

    return side_by_side


@pytest.fixture
def lucky_env(request: pytest.FixtureRequest, lucky_tally: ComparisonCounts) -> Generator[VectorEnv]:
    """An env of the marker's engine, as `lucky_side_by_side` opens it; the first difference fails the test."""
    from lucky_transport_migration.side_by_side.hooks import engines_of

    engines, env = engines_of(request.node, {})
    with _hooks(request).opened(engines, lucky_tally, **env) as made:
        yield made


def _hooks(request: pytest.FixtureRequest) -> Hooks:
    """Return what the session registered; skips the test where there is nothing to compare."""
    hooks = request.config.pluginmanager.get_plugin(_HOOKS)
    if hooks is None:
        pytest.skip("nothing to compare; run pytest with --lucky-between grpc,shm, or set lucky_between in its config")
    return hooks
