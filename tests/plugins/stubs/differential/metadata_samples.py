"""Metadata to send, by the name of what is special about them."""

from __future__ import annotations

from typing import Any

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
