"""Servers: starting, stopping under calls, and their limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import Ends, generic_handler, method_handler, path
from ..invoking import FREE_WAYS, Way, argument
from ..records import PATIENCE_S, Diary, Record, attempt, happened, taken
from ..registry import case, each

ECHO = {"Method": method_handler("unary_unary", lambda request, context: request)}


class _Pending:
    """A call that a server is busy with, until its handler is let go."""

    def __init__(self, ends: Ends, way: Way, **arguments: Any) -> None:
        self._gate, begun, self._told = ends.gate(), threading.Event(), threading.Event()

        def unary(request: Any, context: Any) -> bytes:
            context.add_callback(self._told.set)
            begun.set()
            self._gate.wait(PATIENCE_S)
            return b"response"

        def stream(request: Any, context: Any) -> Iterator[bytes]:
            yield unary(request, context)

        handler = method_handler(way.arity, stream if way.style == "iterator" else unary)
        self.served = ends.serve({"Method": handler, "Other": ECHO["Method"]}, **arguments)
        self.channel = ends.connect(self.served.target)
        method = getattr(self.channel, way.arity)(path())
        self._way = way
        self._call = (method if way.style == "iterator" else method.future)(argument(way.arity))
        self.begun = happened(begun)

    def let_go(self) -> None:
        """Let the handler answer."""
        self._gate.set()

    def let_go_at_its_end(self) -> None:
        """Let the handler answer once it was told that its call has ended."""
        self._told.wait(PATIENCE_S)
        self.let_go()

    def outcome(self) -> Record:
        """Return how the call ended, for its caller and for its handler."""
        seen = taken(self._call) if self._way.style == "iterator" else attempt(self._call.result, PATIENCE_S)
        error: Record = seen.get("raised") or seen.get("ended") or {}
        if self._call.code() is grpc.StatusCode.UNAVAILABLE:
            error.pop("details")  # what the socket says depends on who closes it first
        return {"call": seen, "code": self._call.code().name, "told": happened(self._told)}


@each(way=FREE_WAYS)
def stopping_without_grace_ends_calls(ends: Ends, way: Way) -> Record:
    pending = _Pending(ends, way)
    threading.Thread(target=pending.let_go_at_its_end).start()  # gRPC's stop(None) waits for the handler
    stopped = pending.served.server.stop(None)
    return {"begun": pending.begun, "stopped": happened(stopped), **pending.outcome()}


@each(way=FREE_WAYS)
def stopping_with_grace_lets_calls_end(ends: Ends, way: Way) -> Record:
    pending = _Pending(ends, way)
    stopped = pending.served.server.stop(PATIENCE_S)
    seen = {"begun": pending.begun, "stopped at once": stopped.is_set()}
    pending.let_go()
    return {**seen, **pending.outcome(), "stopped": happened(stopped)}


@each(way=FREE_WAYS)
def grace_runs_out(ends: Ends, way: Way) -> Record:
    pending = _Pending(ends, way)
    stopped = pending.served.server.stop(0.1)
    seen = {"begun": pending.begun, **pending.outcome()}
    pending.let_go()
    return {**seen, "stopped": happened(stopped)}


@case
def new_calls_are_refused_during_grace(ends: Ends) -> Record:
    pending = _Pending(ends, FREE_WAYS[0])
    stopped = pending.served.server.stop(PATIENCE_S)
    refused = attempt(pending.channel.unary_unary(path("Other")), b"request", timeout=PATIENCE_S)
    pending.let_go()
    return {"refused": "raised" in refused, **pending.outcome(), "stopped": happened(stopped)}


@case
def a_shorter_grace_overrides_a_longer_one(ends: Ends) -> Record:
    pending = _Pending(ends, FREE_WAYS[0])
    first = pending.served.server.stop(PATIENCE_S)
    second = pending.served.server.stop(0.05)
    seen = pending.outcome()
    pending.let_go()
    return {**seen, "first": happened(first), "second": happened(second)}


@each(grace=(None, 0, 1))
def an_idle_server_stops_at_once(ends: Ends, grace: float | None) -> Record:
    server = ends.serve(ECHO).server
    stopped = server.stop(grace)
    return {
        "event": type(stopped).__name__,
        "stopped": happened(stopped),
        "again": happened(server.stop(None)),
        "terminated": attempt(server.wait_for_termination, timeout=PATIENCE_S),
    }


@case
def a_server_that_never_started_stops(ends: Ends) -> Record:
    server = ends.server()
    return {"stopped": happened(server.stop(None)), "again": happened(server.stop(1))}


@case
def waiting_for_termination_has_a_timeout(ends: Ends) -> Record:
    return attempt(ends.serve(ECHO).server.wait_for_termination, timeout=0.05)


@case
def waiting_for_termination_ends_with_the_server(ends: Ends) -> Record:
    server, diary = ends.serve(ECHO).server, Diary()
    waiting = threading.Thread(target=lambda: diary.note(attempt(server.wait_for_termination)))
    waiting.start()
    server.stop(None)
    waiting.join(PATIENCE_S)
    return {"alive": waiting.is_alive(), "diary": diary.after(1)}


@case
def a_server_starts_once(ends: Ends) -> Record:
    return attempt(ends.serve(ECHO).server.start)


@case
def a_port_is_positive(ends: Ends) -> Record:
    return {"positive": ends.server().add_insecure_port(ends.address()) > 0}


@case
def an_address_is_taken(ends: Ends) -> Record:
    served = ends.serve(ECHO)
    seen = attempt(ends.server().add_insecure_port, served.target)
    return {"classes": seen.get("raised", {}).get("classes")}


@case
def a_server_listens_at_several_addresses(ends: Ends) -> Record:
    server = ends.server(generic_handler(ECHO))
    addresses = [ends.address(), ends.address()]
    for address in addresses:
        server.add_insecure_port(address)
    server.start()
    return {"responses": [attempt(ends.connect(address).unary_unary(path()), b"request") for address in addresses]}


@each(limit=(1, 2))
def only_so_many_calls_at_once(ends: Ends, limit: int) -> Record:
    gate, begun = ends.gate(), Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        begun.note(request)
        gate.wait(PATIENCE_S)
        return request

    method = ends.unary_unary(behaviour, maximum_concurrent_rpcs=limit)
    held = [method.future(b"held") for _ in range(limit)]
    seen: Record = {"begun": begun.after(limit), "refused": attempt(method, b"one too many")}
    gate.set()
    seen["held"] = [attempt(call.result, PATIENCE_S) for call in held]
    return seen


@case
def a_place_is_free_again_after_a_call(ends: Ends) -> Record:
    method = ends.unary_unary(lambda request, context: request, maximum_concurrent_rpcs=1)
    done = 0
    for _ in range(1_000):
        done += "value" in attempt(method, b"request")
        if done == 10:
            break
    return {"done": done}


@case
def unknown_methods_take_no_place(ends: Ends) -> Record:
    served = ends.serve(ECHO, maximum_concurrent_rpcs=0)
    channel = ends.connect(served.target)
    return {
        "known": attempt(channel.unary_unary(path()), b"request"),
        "unknown": attempt(channel.unary_unary(path("Other")), b"request"),
    }


@case
def calls_queue_for_the_pool(ends: Ends) -> Record:
    gate, begun = ends.gate(), Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        begun.note(request)
        gate.wait(PATIENCE_S)
        return request

    method = ends.unary_unary(behaviour, workers=1)
    first = method.future(b"first")
    begun.after(1)
    rest = [method.future(b"later") for _ in range(5)]
    expired = attempt(method, b"expired", timeout=0.1)
    gate.set()
    return {
        "first": attempt(first.result, PATIENCE_S),
        "rest": [attempt(call.result, PATIENCE_S) for call in rest],
        "expired": expired,
        "begun": begun.after(6)[:6],
    }
