"""Plugins of call credentials that do all that a plugin can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from .records import attempt

TOKEN = (("authorization", "Bearer token"), ("x-more-bin", b"\x00\xff"))

Behaviour = Callable[[Any, Any], None]


class Plugin(grpc.AuthMetadataPlugin):
    """Does with its context and callback what `behaviour` does."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def __call__(self, context: Any, callback: Any) -> None:
        self._behaviour(context, callback)


def credentials(behaviour: Behaviour) -> Any:
    """Return the credentials of a call whose plugin behaves so."""
    return grpc.metadata_call_credentials(Plugin(behaviour))


def giving(metadata: Any) -> Behaviour:
    """Return what gives these metadata."""
    return lambda context, callback: callback(metadata, None)


def _raises(context: Any, callback: Any) -> None:
    raise ValueError("no luck")


def _gives_and_raises(context: Any, callback: Any) -> None:
    callback(TOKEN, None)
    raise ValueError("too late")


def _gives_twice(context: Any, callback: Any) -> None:
    callback(TOKEN, None)
    second = attempt(callback, (("second", str(1)),), None)
    assert second["raised"]["text"] == "AuthMetadataPluginCallback invoked more than once!"


def _gives_later(context: Any, callback: Any) -> None:
    threading.Timer(0.05, callback, (TOKEN, None)).start()


def _gives_late(context: Any, callback: Any) -> None:
    time.sleep(0.7)
    callback(TOKEN, None)


#: By a name, what a plugin does; each call ends by itself within half a second, or waits for its deadline.
BEHAVIOURS: dict[str, Behaviour] = {
    "gives": giving(TOKEN),
    "gives a list": giving([("one", "1"), ("one", "2")]),
    "gives nothing": giving(()),
    "gives None": giving(None),
    "gives an empty value": giving((("key", None),)),
    "gives later": _gives_later,
    "gives twice": _gives_twice,
    "gives and raises": _gives_and_raises,
    "gives what is reserved": giving((("user-agent", "mine"), ("grpc-timeout", "1S"), ("grpc-message", "m"))),
    "gives a bad key": giving((("Bad Key", "x"),)),
    "gives a bad value": giving((("key", "a\nb"),)),
    "fails": lambda context, callback: callback((), RuntimeError("no tøken")),
    "fails with a text": lambda context, callback: callback(None, "no token"),
    "raises": _raises,
}
#: Those whose call has ended before they give anything.
TARDY: dict[str, Behaviour] = {"gives late": _gives_late, "never gives": lambda context, callback: None}
