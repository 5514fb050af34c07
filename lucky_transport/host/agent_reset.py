"""The ResetAgent of typed calls.

A call resets its agent in one exchange with all other envs held. A SimulationContract reaches the engine before the
reset it belongs to. It holds for its agent's resets until another one is given, its client leaves, or a client sets the
engine's reset options; other agents follow the engine's own.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from lucky_transport.engine import RESET
from lucky_transport.host.agent_step import env_of
from lucky_transport.host.driver_lease import Driver, DriverLease, only
from lucky_transport.messages import SetResetOptionsRequest, SimulationContract
from lucky_transport.messages.methods import method

SET_RESET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")


@dataclass(frozen=True, slots=True)
class AgentReset:
    """One agent's reset; `contract` is None when it asks for nothing, `refusal` is why it is refused."""

    env: int
    contract: SimulationContract | None = None
    refusal: str = ""


class AgentResets:
    """The ResetAgents of one lease."""

    def __init__(self, lease: DriverLease) -> None:
        self._lease = lease
        self._given: dict[int, tuple[str, SimulationContract]] = {}  # by env: the client's key, and what it gave
        self._staged: SimulationContract | None = None  # the contract that the engine follows because of us
        self._staging = False
        self._leases = 0  # of which lease `_given` is

    def read(self, agent_name: str, contract: SimulationContract | None) -> AgentReset:
        """Return what a ResetAgentRequest asks for; never raises for what is wrong with it."""
        try:
            env = env_of(self._lease.spec, agent_name)
        except ValueError as error:
            return AgentReset(0, refusal=str(error))
        return AgentReset(env, contract if contract != SimulationContract() else None)

    def run(self, reset: AgentReset, driver: Driver, timeout_s: float) -> str:
        """Reset the agent and return why it was not, "" where it was.

        Raises Busy, PeerTimeout, LocalProtocolError (no hold) and what the engine's step raises.
        """
        if reset.refusal:
            return reset.refusal

        def act() -> str:
            if self._leases != self._lease.leases:
                self._given.clear()
                self._leases = self._lease.leases
            self._given = {env: given for env, given in self._given.items() if self._lease.has(given[0])}
            contract = copy.deepcopy(reset.contract)  # the caller may change its message later
            if contract is None and reset.env in self._given:
                contract = self._given[reset.env][1]
            refusal = self._stage(contract)
            if not refusal:
                self._lease.exchange(only(self._lease.spec, [reset.env], RESET))
                self._lease.fresh[reset.env] = True
                if reset.contract is not None and contract is not None:
                    self._given[reset.env] = (driver.key, contract)
            return refusal

        return self._lease.run(driver, timeout_s, act)

    def forget_contracts(self) -> None:
        """Let the engine's own reset options hold for every agent: a client has set them."""
        if self._staging:
            return
        self._given.clear()
        self._staged = None

    def _stage(self, contract: SimulationContract | None) -> str:
        """Have the engine follow a contract, its own for None; return why it does not, "" if it does."""
        if contract is None and self._staged is None:
            return ""
        host = self._lease.host
        if not host.implements(SET_RESET_OPTIONS):
            return f"engine {self._lease.spec.engine!r} takes no simulation contract; reset without one"
        self._staging = True
        try:
            answer = host.call(SET_RESET_OPTIONS, SetResetOptionsRequest(contract))
        finally:
            self._staging = False
        if not answer.success:
            return answer.message or "the engine refused the simulation contract"
        self._staged = contract
        return ""
