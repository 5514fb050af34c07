"""`schema/kits/c/lucky_schema.h`: the numbers of envelopes, methods, errors and fields, for the kit in C."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from lucky_transport import messages
from lucky_transport.codec.envelope import Envelope, Kind, Metadatum
from lucky_transport.engine import HOLD, RESET, TICK
from lucky_transport.errors import TransportError
from lucky_transport.messages import _generated
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.scalars import is_struct
from lucky_transport.shm import ring, timing
from lucky_transport.shm.ring import DEFAULT_RING_BYTES
from lucky_transport.shm.segment.layout import EngineState
from lucky_transport.shm.slot_files import image_file

__all__ = ["render"]

_HEAD = """\
/* Numbers of the command channel: kinds of envelopes, methods, errors, and the slot of each field in its table.
 *
 * Made from proto/ by schema/generate.py; do not edit.
 */
#ifndef LUCKY_SCHEMA_H
#define LUCKY_SCHEMA_H

#include <stdint.h>
"""


def render() -> str:
    """Return the text of the header."""
    return "\n".join([_HEAD, *_lines(), "", "#endif", ""])


def _lines() -> Iterator[str]:
    for kind in Kind:
        yield f"#define LUCKY_KIND_{kind.name} {kind.value}u"
    for row in METHODS:
        yield f"#define LUCKY_METHOD_{row.service.rpartition('.')[2]}_{row.short_name} {row.id}u"
    for cls in (TransportError, *TransportError.__subclasses__()):
        yield f"#define LUCKY_ERROR_{cls.__name__} {cls.wire_code}u"
    yield "/* Names of the errors, by code. */"
    yield "static const char *const LUCKY_ERRORS[] = {"
    names = {cls.wire_code: cls.__name__ for cls in (TransportError, *TransportError.__subclasses__())}
    yield from (f'    "{names.get(code, "")}",' for code in range(max(names) + 1))
    yield "};"
    for name, value in timing.NATIVE.items():
        yield f"#define LUCKY_{name} {value if value >= 0 else f'({value})'}"
    for name, value in (("RESET", RESET), ("HOLD", HOLD), ("TICK", TICK)):
        yield f"#define LUCKY_CONTROL_{name} {value}u"
    yield f"#define LUCKY_STATE_READY {EngineState.READY}u"
    yield f"#define LUCKY_STATE_CLOSING {EngineState.CLOSING}u"
    yield f"#define LUCKY_IMAGES_MAGIC {image_file.MAGIC:#x}u"
    yield f"#define LUCKY_IMAGES_VERSION {image_file.VERSION}u"
    yield f"#define LUCKY_DEFAULT_RING_BYTES {DEFAULT_RING_BYTES}u"
    yield f"#define LUCKY_RING_READ {ring.READ_POSITION}"
    yield f"#define LUCKY_RING_WRITER_PARK {ring.WRITER_PARK}"
    yield f"#define LUCKY_RING_SKIP {ring.SKIP:#x}u"
    yield "/* Full names of the methods, for messages. */"
    yield "static const struct {"
    yield "    uint32_t id;"
    yield "    const char *path;"
    yield "} LUCKY_METHODS[] = {"
    for row in METHODS:
        yield f'    {{{row.id}u, "{row.name}"}},'
    yield "};"
    for cls in (Metadatum, Envelope, *(getattr(messages, name) for name in _generated.MODULE_OF)):
        if not issubclass(cls, IntEnum) and not is_struct(cls):
            for slot, field in enumerate(fields_of(cls)):
                yield f"#define LUCKY_{cls.__name__}_{field.name} {slot}"
