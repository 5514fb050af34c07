"""Contract suites for authors of transports and engines, a checker for vector envs, recorders to compare trajectories.

`check_vector_env(env)` checks any Gymnasium vector env, see `lucky_transport.testing.vector_env_check`.

A transport's test file is this long:

    from lucky_transport.testing.contract import TransportContract

    class TestEchoTransport(TransportContract):
        endpoint = "echo://{name}"

The registry must know the scheme (`lucky_transport.hookspecs.TransportInfo`, entry point group `lucky_transport`), as
it does for users. Override `serve` or `connect` where your transport needs more than that; set `has_deadlines = False`
when nothing can be waited for (as in one thread), `hot_path_excludes_steps = False` when a batch is stepped by the
typed Step itself, `carries_parts = False` when every number on the wire has a meaning of its own, so that observations
and actions with parts (packed into bytes) are refused with a SpecError; name in `inapplicable` the tests that a foreign
protocol has no room for, and why. What the transport cannot do it declares in its
`capabilities`; the tests concerned are then skipped, and say which capability is missing.


    class TestEchoTransport(TransportContract):
        endpoint = "echo://{name}"
        declares = Capabilities(streams=True)

With `declares`, a test fails when the transport's capabilities are others, and tests that do not apply skip before they
connect. With `pytest_plugins = ["lucky_transport.testing.needs"]` in your `conftest.py` pytest deselects them.

An engine's test file:

    from lucky_transport.testing.contract import EngineContract

    class TestPendulum(EngineContract):
        def make_engine(self, num_envs):
            return PendulumEngine(num_envs, episode_steps=20)

Give it short episodes: the suite tells you when no episode ended, because it then proves little.

For failures that show values, ask pytest to rewrite the suites' asserts, in your `conftest.py`:

    pytest.register_assert_rewrite("lucky_transport.testing")

Importing this package imports nothing; the suites need pytest. The reference implementation is the transport without a
wire, `inproc`: every other transport gives the same answers, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lucky_transport.testing.vector_env_check import VectorEnvFaults, check_vector_env

__all__ = ["VectorEnvFaults", "check_vector_env"]


def __getattr__(name: str) -> Any:
    """Load the checker at its first use; it needs no pytest."""
    if name in __all__:
        from lucky_transport.testing import vector_env_check

        return getattr(vector_env_check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
