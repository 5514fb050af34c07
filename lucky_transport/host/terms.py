"""Which reward and termination terms the Steps of each client carry: those that the client itself negotiated."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from lucky_transport.messages import RewardContract, TaskContract, TerminationContract
from lucky_transport.spec.batch_spec import BatchSpec


@dataclass(frozen=True, slots=True)
class Terms:
    """The reward and termination terms that a client's Steps carry: (name, row of the signals)."""

    rewards: tuple[tuple[str, int], ...]
    terminations: tuple[tuple[str, int], ...]

    @classmethod
    def every(cls, spec: BatchSpec) -> Terms:
        """Return all terms of the spec."""
        return cls.of(spec, spec.reward_terms, spec.termination_terms)

    @classmethod
    def of(cls, spec: BatchSpec, rewards: Sequence[str], terminations: Sequence[str]) -> Terms:
        """Return the named terms; a name that the spec does not have is left out."""
        first = len(spec.reward_terms)
        reward_rows = {name: row for row, name in enumerate(spec.reward_terms)}
        termination_rows = {name: row for row, name in enumerate(spec.termination_terms, first)}
        return cls(
            tuple((name, reward_rows[name]) for name in rewards if name in reward_rows),
            tuple((name, termination_rows[name]) for name in terminations if name in termination_rows),
        )


class NegotiatedTerms:
    """The terms each client negotiated last; all terms for a client that never did."""

    #: Legacy clients do not detach; beyond this many the one that negotiated longest ago is forgotten.
    MAX_CLIENTS = 1024

    def __init__(self, spec: BatchSpec) -> None:
        self._spec = spec
        self.every = Terms.every(spec)
        self._lock = threading.Lock()
        self._negotiated: OrderedDict[str, Terms] = OrderedDict()

    def note(self, caller: str, contract: TaskContract) -> None:
        """Have the Steps of `caller` carry exactly the terms of `contract` from now on."""
        rewards = contract.rewards or RewardContract()
        terminations = contract.terminations or TerminationContract()
        asked = Terms.of(
            self._spec,
            [term.name for term in rewards.engine_terms],
            [term.name for term in terminations.terms],
        )
        with self._lock:
            self._negotiated[caller] = asked
            self._negotiated.move_to_end(caller)
            if len(self._negotiated) > self.MAX_CLIENTS:
                self._negotiated.popitem(last=False)

    def of(self, caller: str) -> Terms:
        """Return the terms of `caller`'s Steps."""
        return self._negotiated.get(caller, self.every)

    def forget(self, caller: str) -> None:
        """Forget the terms of a client that has gone."""
        with self._lock:
            self._negotiated.pop(caller, None)
