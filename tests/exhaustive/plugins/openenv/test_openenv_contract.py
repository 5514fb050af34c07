"""Agents that play one episode each over OpenEnv's own client show what a transport of the batch shows."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

from openenv.core import GenericEnvClient  # pyright: ignore[reportMissingImports]

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.errors import ClosedError, TransportError, Unimplemented
from lucky_transport.lockstep import LockstepEvent, LockstepState, LockstepTransport
from lucky_transport.messages import SetSeedsResponse
from lucky_transport.messages.methods import Method, method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.testing.suite import every, open_reference, zeros
from lucky_transport.transport import Capabilities, Frame, Transport

pytestmark = pytest.mark.filterwarnings("ignore")  # of foreign packages, in the server's own threads too

_SET_SEEDS = method("BatchService/SetSeeds")
_ENDS = "an episode that has ended takes no step before its reset"
#: From this seed no episode ends within a test that goes on for long.
_LASTING = {"seed": 5}
_ALONE = "each agent's step is an exchange of its own, in a place of its own"
_CLIENT = "the client is OpenEnv's own"


class Agents(LockstepTransport):
    """A client for each env; the spec is told to it, for agents see schemas."""

    name = "openenv"
    capabilities = Capabilities(commands=False)

    def __init__(self, url: str, spec: BatchSpec) -> None:
        self._buffers = Buffers.allocate(spec)
        super().__init__(spec, self._buffers.actions)
        self._frame = Frame.showing(self._buffers)
        self._control = np.zeros(spec.num_envs, np.uint8)
        self._seeds: dict[int, int] = {}
        self._stack = ExitStack()
        self._agents = [self._stack.enter_context(GenericEnvClient(url).sync()) for _ in range(spec.num_envs)]

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        checked, given = self._check(actions, control)
        self._keep(checked)
        self._control = np.zeros(self.spec.num_envs, np.uint8) if given is None else given.copy()
        self._lockstep.on(LockstepEvent.SEND)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check_sent()
        try:
            for env, agent in enumerate(self._agents):
                if self._control[env] & RESET:
                    seed = self._seeds.pop(env, None)
                    self._show(env, agent.reset(**({} if seed is None else {"seed": seed})))
                elif not self._control[env] & HOLD:
                    self._show(env, agent.step({"action": self.actions[env].tolist()}))
        except RuntimeError as error:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise TransportError(str(error)) from error
        self._lockstep.on(LockstepEvent.FRAME)
        return self._numbered(self._frame)

    def _show(self, env: int, result: Any) -> None:
        out, seen = self._buffers, result.observation
        names = (*self.spec.reward_terms, *self.spec.termination_terms)
        out.observations[env] = seen["observation"]
        out.rewards[env] = result.reward or 0
        out.terminated[env], out.truncated[env] = seen["terminated"], seen["truncated"]
        out.signals[:, env] = [seen["details"].get("terms", {}).get(name, 0) for name in names]

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if self._lockstep.state is LockstepState.CLOSED:
            raise ClosedError("the transport is closed; connect again")
        if method is not _SET_SEEDS:
            raise Unimplemented(f"engine {self.spec.engine!r} does not implement {method.name}")
        self._seeds = dict(enumerate(request.seeds))
        return SetSeedsResponse(True)

    def implements(self, method: Method) -> bool:
        return method is _SET_SEEDS

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            self._stack.close()


class TestOpenEnv(SteppingContract, FailureContract):
    declares = Capabilities(commands=False)
    inapplicable: Mapping[str, str] = {
        "test_a_reset_env_has_no_outcome": _ENDS,
        "test_any_ended_is_false_only_when_no_env_ended": _ENDS,
        "test_any_sequence_of_moves_gives_the_references_frames": _ENDS,
        "test_observations_and_actions_keep_the_engines_own_dtypes": _ENDS,
        "test_values_out_of_bounds_are_passed_on_and_counted": "an agent's action that is out of bounds is refused",
        "test_a_failing_engine_names_its_error": _ALONE,
        "test_a_failing_engine_raises_what_the_reference_raises_and_can_be_stepped_again": _ALONE,
        "test_a_second_driver_is_refused_until_the_first_closes": _ALONE,
        "test_hold_is_refused_where_the_engine_has_none": "such an engine has one place",
        "test_the_next_driver_finds_the_engine_where_the_last_one_left_it": "an agent begins with a reset",
        "test_a_frame_that_missed_its_deadline_can_be_received_later": _CLIENT,
        "test_a_forked_child_is_refused_and_its_parent_goes_on": _CLIENT,
        "test_closing_in_a_forked_child_does_not_close_its_parent": _CLIENT,
        "test_an_engine_that_has_stopped_is_stepped_no_more": _CLIENT,  # it raises an error of its own
    }

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        if engine == "cartpole":
            pytest.skip("an agent of worlds sees what no batch has")
        options = {} if isinstance(engine, Engine) else _LASTING | options
        with api.serve(engine, "openenv://127.0.0.1:0", num_envs=num_envs, options=options) as serving:
            self._spec = serving.host.spec
            yield serving.endpoints[0]

    def connect(self, endpoint: Endpoint) -> Transport:
        """Return a client whose agents have begun their episodes."""
        client = Agents(f"http://{endpoint.address}", self._spec)
        client.step(zeros(client), every(client, RESET))
        return client

    @contextmanager
    def open_reference(self, engine: str | Engine, num_envs: int = 4, **options: Any) -> Generator[Transport]:
        with open_reference(engine, num_envs, **(_LASTING | options)) as reference:
            reference.step(zeros(reference), every(reference, RESET))
            yield reference
