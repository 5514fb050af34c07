"""`wait_for_ready`: calls that wait for a server that comes later, or goes away and comes back."""

from __future__ import annotations

import threading
from typing import Any

from ..ends import Ends, method_handler, path
from ..invoking import FREE_WAYS, Way, answering, argument, ended
from ..records import PATIENCE_S, Record, attempt, happened, taken
from ..registry import each


def _start(method: Any, way: Way, **options: Any) -> Any:
    return (method.future if way.style == "future" else method)(argument(way.arity), **options)


def _finish(call: Any, way: Way) -> Record:
    result = attempt(call.result, PATIENCE_S) if way.style == "future" else taken(call)
    return {"result": result, **ended(call)}


def _echo(ends: Ends, way: Way, address: str) -> Any:
    behaviour = answering(way.arity, lambda request, context: request)
    return ends.serve({"Method": method_handler(way.arity, behaviour)}, address=address).server


@each(way=FREE_WAYS)
def the_server_comes_later(ends: Ends, way: Way) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    call = _start(method, way, wait_for_ready=True, timeout=PATIENCE_S)
    before = call.is_active()
    _echo(ends, way, address)
    return {"before": before, **_finish(call, way)}


@each(way=FREE_WAYS, times=(2,))
def the_server_goes_and_comes_back(ends: Ends, way: Way, times: int) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    seen: Record = {}
    for number in range(times):
        server = _echo(ends, way, address)
        seen[f"up {number}"] = _finish(_start(method, way, wait_for_ready=True, timeout=PATIENCE_S), way)
        server.stop(None).wait(PATIENCE_S)
        call = _start(method, way, wait_for_ready=True, timeout=PATIENCE_S)
        active = call.is_active()
        again = _echo(ends, way, address)
        seen[f"down {number}"] = {"active": active, **_finish(call, way)}
        again.stop(None).wait(PATIENCE_S)
    return seen


@each(way=FREE_WAYS, waits=(None, False))
def a_call_that_does_not_wait_fails_meanwhile(ends: Ends, way: Way, waits: bool | None) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    _echo(ends, way, address).stop(None).wait(PATIENCE_S)
    patient = _start(method, way, wait_for_ready=True, timeout=PATIENCE_S)
    code = _start(method, way, wait_for_ready=waits, timeout=PATIENCE_S).code().name
    _echo(ends, way, address)
    return {"code": code, **_finish(patient, way)}


@each(way=FREE_WAYS)
def a_call_under_way_does_not_wait_for_another_server(ends: Ends, way: Way) -> Record:
    address, gate, begun = ends.address(), ends.gate(), threading.Event()

    def wait(request: bytes, context: Any) -> bytes:
        begun.set()
        gate.wait(PATIENCE_S)
        return request

    served = ends.serve({"Method": method_handler(way.arity, answering(way.arity, wait))}, address=address)
    method = getattr(ends.connect(address), way.arity)(path())
    call = _start(method, way, wait_for_ready=True, timeout=PATIENCE_S)
    seen: Record = {"begun": happened(begun)}
    stopped = served.server.stop(0)
    if way.style == "iterator":
        taken(call)  # a stream has its status once its responses are taken
    code = call.code().name
    gate.set()
    stopped.wait(PATIENCE_S)
    _echo(ends, way, address)
    again = _finish(_start(method, way, wait_for_ready=True, timeout=PATIENCE_S), way)
    return {**seen, "code": code, "again": again}


@each(way=FREE_WAYS)
def is_cancelled_while_it_waits(ends: Ends, way: Way) -> Record:
    method = getattr(ends.connect(ends.address()), way.arity)(path())
    call = _start(method, way, wait_for_ready=True)
    cancelled = call.cancel()
    return {"cancelled": cancelled, **_finish(call, way)}
