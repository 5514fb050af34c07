"""What a program can tell of an object of gRPC's API without using it: its classes, text, names and pickling."""

import copy
import pickle
import re
from typing import Any

import grpc

#: The classes of the API that objects are instances of.
_CLASSES = tuple(
    kind
    for module in (grpc, grpc.aio)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__.startswith("grpc")
)

#: Private names that published packages and programs read of these objects, by kind.
PRIVATE = {
    "channel": ("_channel",),
    "method": ("_channel", "_method", "_request_serializer", "_response_deserializer"),
    "call": ("_state",),
    "error": ("_state",),
    "context": ("_rpc_event", "_state"),
    "server": ("_state",),
}


def appearance(thing: Any, kind: str = "") -> dict[str, Any]:
    """Return what `thing`, which has the names of its kind, looks like."""
    return {
        "class": f"{type(thing).__module__}.{type(thing).__name__}",
        "classes": sorted({f"{one.__module__}.{one.__qualname__}" for one in _CLASSES if isinstance(thing, one)}),
        "repr": _text(thing),
        "pickles": _pickles(thing),
        "copy": _text(copy.copy(thing)) if kind == "method" else "",
        "private": [name for name in PRIVATE.get(kind, ()) if hasattr(thing, name)],
    }


def _text(thing: Any) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", repr(thing))


def _pickles(thing: Any) -> bool:
    try:
        pickle.dumps(thing)
    except (TypeError, AttributeError, pickle.PicklingError):  # the last is for a class that has the name of another
        return False
    return True
