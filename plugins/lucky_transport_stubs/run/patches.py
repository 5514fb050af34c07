"""grpc's four channel factories, made to ask the switch first.

Rule 1: a channel that stays on gRPC is made by the original factory with the caller's own arguments.
Rule 2: everything else of grpc that makes channels (stubs without a channel, the beta API) goes through these four by
        itself, because it looks them up when it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from lucky_transport_stubs.run import cure
from lucky_transport_stubs.run.ledger import Calls, Ledger
from lucky_transport_stubs.run.switch import Route, Switch

__all__ = ["patch"]

Factory = Callable[..., Any]

#: What a channel over shared memory takes of a factory's arguments: it has no credentials, its peer is this very user.
_KEPT = ("options", "compression", "interceptors")

#: Factories of ours, by which a second patch of the same module is recognised.
_ours: set[Factory] = set()


def patch(grpc: ModuleType, switch: Switch, ledger: Ledger | None) -> None:
    """Make all channels of grpc and grpc.aio ask `switch` from now on; their calls are counted when there is a ledger.

    A factory that is ours already stays as it is (after importlib.reload(grpc), those of grpc.aio are).
    """
    for module, over_shm in ((grpc, _channel), (grpc.aio, _aio_channel)):
        for name in ("insecure_channel", "secure_channel"):
            original = getattr(module, name)
            if original not in _ours:
                setattr(module, name, _switched(original, over_shm, switch, ledger))


def _channel(endpoint: str, **kept: Any) -> Any:
    from lucky_transport_stubs import channel

    return channel(endpoint, **kept)


def _aio_channel(endpoint: str, **kept: Any) -> Any:
    from lucky_transport_stubs import aio_channel

    return aio_channel(endpoint, **kept)


def _switched(original: Factory, over_shm: Factory, switch: Switch, ledger: Ledger | None) -> Factory:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make_channel(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named).arguments
        cure.cure_luckyrobots()
        route = switch.route(_text(given["target"]))
        if route.endpoint:
            channel = over_shm(route.endpoint, **{key: given[key] for key in _KEPT if key in given})
        else:
            channel = original(*args, **named)
        return channel if ledger is None else _counted(channel, route, ledger)

    _ours.add(make_channel)
    return make_channel


def _counted(channel: Any, route: Route, ledger: Ledger) -> Any:
    from lucky_transport_stubs.run.counting import counted

    return counted(channel, lambda method: ledger.tally(Calls(route.target, route.endpoint, route.why, _text(method))))


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
