"""`wait_for_ready`: calls that wait for a server that comes later, or goes away and comes back."""

from typing import Any

from ..both import BOTH, FREE_WAYS, SAFE_FREE_WAYS, Driver, Held, echo
from ..ends import method_handler, path
from ..records import PATIENCE_S, Record, Way
from ..registry import each

#: Longer than a call takes to find that nobody is there, on a busy machine.
_SOON_S = 2.0


async def _echo(ends: Driver, way: Way, address: str) -> Any:
    behaviour = ends.behaviour(way.arity, echo, b"first")
    return (await ends.serve({"Method": method_handler(way.arity, behaviour)}, address=address)).server


def _start(ends: Driver, way: Way, method: Any, waits: bool | None = True) -> Any:
    return ends.start(way, method, wait_for_ready=waits, timeout=PATIENCE_S)


async def _stop(ends: Driver, way: Way, method: Any, server: Any) -> None:
    """Stop the server, and have the channel know it: a call on a connection that has just ended fails now and then.

    One in some hundreds that gRPC's blocking channel (a relay's) sends to an asyncio server as it stops has no end, its
    deadline notwithstanding. A client of ours ends at its own deadline, and asks once more.
    """
    await ends.stop(server)
    code = "DEADLINE_EXCEEDED"
    while code == "DEADLINE_EXCEEDED":
        code = await ends.code(ends.start(way, method, wait_for_ready=False, timeout=_SOON_S))


@each(BOTH, way=FREE_WAYS)
async def the_server_comes_later(ends: Driver, way: Way) -> Record:
    address = ends.address()
    call = _start(ends, way, getattr(ends.connect(address), way.arity)(path()))
    await ends.settle()
    before = ends.state(call)
    await _echo(ends, way, address)
    return {"before": before, **await ends.finish(way, call)}


@each(BOTH, way=FREE_WAYS, times=(2,))
async def the_server_goes_and_comes_back(ends: Driver, way: Way, times: int) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    seen: Record = {}
    for number in range(times):
        server = await _echo(ends, way, address)
        seen[f"up {number}"] = await ends.finish(way, _start(ends, way, method))
        await _stop(ends, way, method, server)
        call = _start(ends, way, method)
        await ends.settle()
        state = ends.state(call)
        again = await _echo(ends, way, address)
        seen[f"down {number}"] = {**state, **await ends.finish(way, call)}
        await _stop(ends, way, method, again)
    return seen


@each(BOTH, way=SAFE_FREE_WAYS, waits=(None, False))
async def a_call_that_does_not_wait_fails_meanwhile(ends: Driver, way: Way, waits: bool | None) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    await _stop(ends, way, method, await _echo(ends, way, address))
    patient = _start(ends, way, method)
    code = await ends.code(_start(ends, way, method, waits))
    await _echo(ends, way, address)
    return {"code": code, **await ends.finish(way, patient)}


@each(BOTH, way={**FREE_WAYS, "asyncio": SAFE_FREE_WAYS["asyncio"]})
async def a_call_under_way_does_not_wait_for_another_server(ends: Driver, way: Way) -> Record:
    address, held = ends.address(), Held(ends)
    behaviour = ends.behaviour(way.arity, held.answer, b"first")
    served = await ends.serve({"Method": method_handler(way.arity, behaviour)}, address=address)
    method = getattr(ends.connect(address), way.arity)(path())
    call = _start(ends, way, method)
    seen: Record = {"begun": await held.begun.happened()}
    stopping = ends.stopping(served.server)
    if way.arity.endswith("stream"):
        await ends.result(way, call)  # a stream has its status once its responses are taken
    code = await ends.code(call)
    held.let_go()
    await stopping
    await _echo(ends, way, address)
    return {**seen, "code": code, "again": await ends.finish(way, _start(ends, way, method))}


@each(BOTH, way=SAFE_FREE_WAYS)
async def is_cancelled_while_it_waits(ends: Driver, way: Way) -> Record:
    call = ends.start(way, getattr(ends.connect(ends.address()), way.arity)(path()), wait_for_ready=True)
    await ends.settle()
    return {"cancelled": call.cancel(), "result": await ends.result(way, call), **await ends.ended(call)}
