"""Every method of the table that the engine answers, generically: protobuf in, the host's handler, protobuf out.

Rule 1: a method is served because it stands in `lucky_transport.messages.methods`; nothing is written per method here.
Rule 2: what a client negotiated concerns the Steps of that client alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.host.host import Host
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport_grpc import _pb
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import decode, encode
from lucky_transport_grpc.step_reply import Terms

__all__ = ["NegotiatedTerms", "typed_handlers"]

_NEGOTIATE = "/hazel.rpc.AgentService/NegotiateTask"


def typed_handlers(host: Host, terms: NegotiatedTerms) -> Mapping[str, Callable[[Any, Caller], Any]]:
    """Return a handler per typed method that exists on this wire, by path; the host refuses what it does not answer."""
    known = [row for row in METHODS if row.name in _pb.methods()]
    handlers = {row.name: _handler(host, row) for row in known}
    answer = handlers[_NEGOTIATE]

    def negotiate(request: Any, caller: Caller) -> Any:
        response = answer(request, caller)
        if response.success:
            terms.note(caller, request.contract)
        return response

    return {**handlers, _NEGOTIATE: negotiate}


def _handler(host: Host, row: Method) -> Callable[[Any, Caller], Any]:
    response = _pb.methods()[row.name].response

    def handle(request: Any, _: Caller) -> Any:
        return encode(host.call(row, decode(request, row.request)), row.response, response)

    return handle


class NegotiatedTerms:
    """Which terms each client's Steps carry: those it negotiated last, all of them when it never did."""

    #: Legacy clients do not say goodbye; beyond this many the one that negotiated longest ago is forgotten.
    MAX_CLIENTS = 1024

    def __init__(self, host: Host) -> None:
        self._spec = host.spec
        self._every = Terms.every(host.spec)
        self._lock = threading.Lock()
        self._negotiated: OrderedDict[str, Terms] = OrderedDict()

    def note(self, caller: Caller, contract: Any) -> None:
        """From now on Steps of `caller` carry exactly the terms of the TaskContract (protobuf) `contract`."""
        asked = Terms.of(
            self._spec,
            [term.name for term in contract.rewards.engine_terms],
            [term.name for term in contract.terminations.terms],
        )
        with self._lock:
            self._negotiated[caller.key] = asked
            self._negotiated.move_to_end(caller.key)
            if len(self._negotiated) > self.MAX_CLIENTS:
                self._negotiated.popitem(last=False)

    def __call__(self, caller: Caller) -> Terms:
        """Return the terms of `caller`'s Steps."""
        return self._every if caller.all_terms else self._negotiated.get(caller.key, self._every)
