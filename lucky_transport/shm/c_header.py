"""The segment's layout as a C header, for engines and tools that are not Python.

    python -m lucky_transport.shm.c_header > schema/lucky_shm.h

Every line follows from `layout.py`; a test compares the committed file with it.
"""

from __future__ import annotations

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
from lucky_transport.spec.batch_spec import DTYPES

__all__ = ["render"]

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


if __name__ == "__main__":
    print(render(), end="")
