"""The C headers that are made from Python: the segment's layout, and the constants of the native module.

    python -m lucky_transport.shm.c_header > schema/lucky_shm.h
    python -m lucky_transport.shm.c_header constants > lucky_transport/shm/_native/constants.h

A test compares the committed files with what this makes.
"""

from __future__ import annotations

import sys

from lucky_transport.shm import ring, timing
from lucky_transport.shm.atomics import NATIVE_VERSION
from lucky_transport.shm.channel import PEER_PARKS, PEER_WAKES, Result
from lucky_transport.shm.layout import (
    ERROR_BYTES,
    EXTENSION_BYTES,
    EXTENSION_OFFSET,
    FIELDS,
    HEADER_BYTES,
    MAGIC,
    REGION_ALIGNMENT,
    RING_HEAD_BYTES,
    VERSION,
    Feature,
)
from lucky_transport.shm.wait import OVERSUBSCRIBED, STRATEGIES
from lucky_transport.spec.batch_spec import DTYPES

__all__ = ["constants", "render"]

_C_TYPES = {"B": "uint8_t", "I": "uint32_t", "Q": "uint64_t"}


def render() -> str:
    """Return the text of `schema/lucky_shm.h`."""
    constants = {
        "MAGIC": f"{MAGIC:#010x}u",
        "VERSION": f"{VERSION}u",
        "HEADER_BYTES": HEADER_BYTES,
        "EXTENSION_OFFSET": EXTENSION_OFFSET,
        "EXTENSION_BYTES": EXTENSION_BYTES,
        "REGION_ALIGNMENT": REGION_ALIGNMENT,
        "RING_HEAD_BYTES": RING_HEAD_BYTES,
        "ERROR_BYTES": ERROR_BYTES,
    }
    lines = [
        "/* The layout of a lucky_transport segment, version 1 (little-endian).",
        " *",
        " * Made from lucky_transport/shm/layout.py by `python -m lucky_transport.shm.c_header`; do not edit.",
        " * Counters (frame_seq, action_seq), park words and the version need acquire loads and release stores.",
        " */",
        "#ifndef LUCKY_SHM_H",
        "#define LUCKY_SHM_H",
        "",
        "#include <stdint.h>",
        "",
        *(f"#define LUCKY_{name} {value}" for name, value in constants.items()),
        "",
        "/* What a side understands: bits of engine_features and client_features. */",
        *(f"#define LUCKY_FEATURE_{feature.name} {feature.value}u" for feature in Feature),
        "",
        "/* Element types: values of obs_dtype and act_dtype. */",
        *(f"#define LUCKY_DTYPE_{name.upper()} {code}u" for code, name in enumerate(DTYPES)),
        "",
        "/* Header fields: byte offset and type. */",
    ]
    for place in sorted(FIELDS.values(), key=lambda place: place.offset):
        kind = _C_TYPES.get(place.code, f"uint8_t[{place.code[:-1]}]")
        lines.append(f"#define LUCKY_OFFSET_{place.name.upper()} {place.offset} /* {kind}: {place.meaning} */")
    return "\n".join([*lines, "", "#endif", ""])


def constants() -> str:
    """Return the text of `_native/constants.h`."""
    values = {
        "NATIVE_VERSION": NATIVE_VERSION,
        **{name: value for name, value in vars(Result).items() if name.isupper()},
        **{f"WAIT_{name.upper()}": code for name, code in STRATEGIES.items()},
        "WAIT_OVERSUBSCRIBED": OVERSUBSCRIBED,
        "PEER_WAKES": PEER_WAKES,
        "PEER_PARKS": PEER_PARKS,
        "RING_READ": ring.READ_POSITION,
        "RING_FREED": ring.WRITER_PARK,
        "RING_HEAD": ring.HEAD_BYTES,
        "RING_SKIP": f"{ring.SKIP:#x}u",
        "RING_SMALLEST": f"{ring.SMALLEST}u",
        "RING_LARGEST": f"{ring.LARGEST:#x}u",
        **timing.NATIVE,
    }
    lines = [
        "/* Made from atomics.py, channel.py, wait.py, ring.py and timing.py, which say what each is, by",
        " * `python -m lucky_transport.shm.c_header constants`; do not edit.",
        " */",
        "#ifndef LUCKY_CONSTANTS_H",
        "#define LUCKY_CONSTANTS_H",
        "",
        *(f"#define {name} {value if str(value)[0] != '-' else f'({value})'}" for name, value in values.items()),
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(constants() if sys.argv[1:] == ["constants"] else render(), end="")
