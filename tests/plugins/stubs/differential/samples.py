"""What cases send and set: metadata, by what is special about them, service configs, plugins of credentials."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from .ends import SERVICE
from .records import REQUESTS, attempt

#: A method of each arity, and what it responds to `records.REQUESTS`.
ECHOES: dict[str, Any] = {
    "unary_unary Echo": lambda request, context: request,
    "unary_stream Count": lambda request, context: (bytes([item]) for item in request),
    "stream_unary Sum": lambda requests, context: b"".join(requests),
    "stream_stream Chat": lambda requests, context: requests,
}
ECHOED = {"Echo": [b"one"], "Count": [b"o", b"n", b"e"], "Sum": [b"onetwothree"], "Chat": [*REQUESTS]}

#: What goes there and back.
SENT: dict[str, Any] = {
    "nothing": (),
    "None": None,
    "one": (("key", "value"),),
    "a list": [("key", "value")],
    "a list of lists": [["key", "value"]],
    "duplicates": (("key", "1"), ("other", "2"), ("key", "3")),
    "empty value": (("key", ""),),
    "empty binary value": (("key-bin", b""),),
    "binary": (("key-bin", bytes(range(256))),),
    "text in a binary key": (("key-bin", "text"),),
    "bytes in an ascii key": (("key", b"bytes"),),
    "every printable character": (("key", "".join(map(chr, range(0x21, 0x7F)))),),
    "inner space": (("key", "a b  c"),),
    "outer space": (("key", "  a  "),),
    "key characters": (("0-9._az", "value"),),
    "comma": (("key", "a,b, c"),),
    "many": tuple((f"key{number}", str(number)) for number in range(100)),
}

#: What HTTP/2 could not carry.
INVALID: dict[str, Any] = {
    "upper case key": (("Key", "value"),),
    "empty key": (("", "value"),),
    "space in the key": (("a key", "value"),),
    "colon key": ((":path", "value"),),
    "slash in the key": (("a/b", "value"),),
    "key beyond ascii": (("schlüssel", "value"),),
    "value beyond ascii": (("key", "süß"),),
    "line feed in the value": (("key", "a\nb"),),
    "tab in the value": (("key", "a\tb"),),
    "zero in the value": (("key", "a\0b"),),
    "delete in the value": (("key", "a\x7f"),),
}

#: What is a mistake in Python, and what gRPC keeps for itself.
ODD: dict[str, Any] = {
    "number as value": (("key", 5),),
    "None as value": (("key", None),),
    "number as key": ((5, "value"),),
    "no key and no text as value": ((None, {}),),
    "number as value after an upper case key": (("Key", "value"), ("key", 5)),
    "triple": (("key", "value", "more"),),
    "a mapping": {"key": "value"},
    "reserved te": (("te", "value"),),
    "reserved content-type": (("content-type", "value"),),
    "reserved user-agent": (("user-agent", "me"),),
}

#: What only a client may try: a server that sends these ends its whole process, or is told of Python's own error.
DANGEROUS: dict[str, Any] = {
    "a number": 5,
    "reserved grpc-timeout": (("grpc-timeout", "1S"),),
    "reserved grpc-message": (("grpc-message", "text"),),
    "reserved grpc-": (("grpc-something", "value"),),
    "host": (("host", "somewhere"),),
}

#: Another attempt comes soon, for the one code that the handlers of cases fail with.
POLICY = {
    "maxAttempts": 3,
    "initialBackoff": "0.01s",
    "maxBackoff": "0.02s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
#: The next attempt does not come within a case.
SLOW = {**POLICY, "initialBackoff": "60s", "maxBackoff": "60s"}

#: What a server may ask for; the last three are no such text.
PUSHBACKS = ("1", "20", "+5", "-1", "1.5", "soon", "")

#: Configs that differ from a valid one in one place, by what is wrong.
WRONG: dict[str, Any] = {
    "no object": [],
    "no methods": {"methodConfig": {}},
    "no method": {"methodConfig": [3]},
    "a method without a service": {"methodConfig": [{"name": [{"method": "Method"}]}]},
    "a name twice": {
        "methodConfig": [{"name": [{"service": SERVICE}]}, {"name": [{"service": SERVICE, "method": ""}]}]
    },
    "two defaults": {"methodConfig": [{"name": [{}]}, {"name": [{"service": ""}]}]},
    "a timeout in numbers": {"methodConfig": [{"timeout": 5}]},
    "a timeout without its unit": {"methodConfig": [{"timeout": "5"}]},
    "a timeout of letters": {"methodConfig": [{"timeout": "as"}]},
    "a timeout too fine": {"methodConfig": [{"timeout": "1.1234567891s"}]},
    "a timeout too long": {"methodConfig": [{"timeout": "315576000001s"}]},
    "no boolean": {"methodConfig": [{"waitForReady": "true"}]},
    "no policy": {"methodConfig": [{"retryPolicy": "often"}]},
    "an empty policy": {"methodConfig": [{"retryPolicy": {}}]},
    "attempts that are no number": {"methodConfig": [{"retryPolicy": {**POLICY, "maxAttempts": []}}]},
    "one attempt": {"methodConfig": [{"retryPolicy": {**POLICY, "maxAttempts": 1}}]},
    "part of an attempt": {"methodConfig": [{"retryPolicy": {**POLICY, "maxAttempts": 2.5}}]},
    "no backoff": {"methodConfig": [{"retryPolicy": {**POLICY, "initialBackoff": "0s", "maxBackoff": "0s"}}]},
    "no growth": {"methodConfig": [{"retryPolicy": {**POLICY, "backoffMultiplier": 0}}]},
    "growth in letters": {"methodConfig": [{"retryPolicy": {**POLICY, "backoffMultiplier": "fast"}}]},
    "no codes": {"methodConfig": [{"retryPolicy": {**POLICY, "retryableStatusCodes": []}}]},
    "an unknown code": {"methodConfig": [{"retryPolicy": {**POLICY, "retryableStatusCodes": ["unavailable"]}}]},
    "a code in numbers": {"methodConfig": [{"retryPolicy": {**POLICY, "retryableStatusCodes": ["ABORTED", 14]}}]},
    "no ratio": {"retryThrottling": {"maxTokens": 10}},
    "no tokens": {"retryThrottling": {"maxTokens": 0, "tokenRatio": 0}},
    "a ratio of letters": {"retryThrottling": {"maxTokens": 10, "tokenRatio": "half"}},
}


def options(*methods: dict[str, Any], **fields: Any) -> tuple[tuple[str, Any], ...]:
    """Return the options of a channel with these method configs; one without a name is the default."""
    named = [{"name": [{}], **method} for method in methods]
    return (("grpc.service_config", json.dumps({"methodConfig": named, **fields})),)


def of_json(config: Any) -> tuple[tuple[str, Any], ...]:
    """Return the options of a channel with this config."""
    return (("grpc.service_config", json.dumps(config)),)


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
