"""The segment's layout for C and C#, and the constants of the native module."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag

from lucky_transport import native
from lucky_transport.codec.envelope import APART_BYTES, AROUND_MESSAGE, Kind
from lucky_transport.errors import TransportError
from lucky_transport.shm import arena, ring, timing
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.segment.layout import (
    ERROR_BYTES,
    EXTENSION_BYTES,
    EXTENSION_OFFSET,
    FIELDS,
    HEADER_BYTES,
    MAGIC,
    REGION_ALIGNMENT,
    RING_HEAD_BYTES,
    VERSION,
    EngineState,
    Feature,
)
from lucky_transport.shm.slot_files import image_file
from lucky_transport.shm.wait import OVERSUBSCRIBED, PEER_WAKES, STRATEGIES
from lucky_transport.spec.batch_spec import DTYPES

__all__ = ["constants", "csharp", "header"]

_C_TYPES = {"B": "uint8_t", "I": "uint32_t", "Q": "uint64_t"}


def header() -> str:
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
        " * Made from lucky_transport/shm/segment/layout.py by schema/generate.py; do not edit.",
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
        "NATIVE_VERSION": native.VERSION,
        **{name: value for name, value in vars(Result).items() if name.isupper()},
        **{f"WAIT_{name.upper()}": code for name, code in STRATEGIES.items()},
        "WAIT_OVERSUBSCRIBED": OVERSUBSCRIBED,
        "PEER_WAKES": PEER_WAKES,
        "RING_READ": ring.READ_POSITION,
        "RING_FREED": ring.WRITER_PARK,
        "RING_HEAD": ring.HEAD_BYTES,
        "RING_SKIP": f"{ring.SKIP:#x}u",
        "RING_STEP": f"{ring.STEP:#x}u",
        "RING_SMALLEST": f"{ring.SMALLEST}u",
        "RING_LARGEST": f"{ring.LARGEST:#x}u",
        **arena.NATIVE,
        "AROUND_MESSAGE": AROUND_MESSAGE,
        "APART_BYTES": APART_BYTES,
        **timing.NATIVE,
    }
    lines = [
        "/* Made from native.py, channel.py, wait.py, ring.py, arena.py and timing.py, which say what each is, by",
        " * schema/generate.py; do not edit.",
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


_CSHARP_HEAD = """\
// The layout of a lucky_transport segment, version 1 (little-endian), and what goes with it.
//
// Made from lucky_transport/shm/segment/layout.py and its neighbours by schema/generate.py; do not edit.
// Counters (frame_seq, action_seq), park words and the version need acquire loads and release stores.
"""


def csharp() -> str:
    """Return the text of the C# kit's `SegmentLayout.cs`."""
    layout = {
        "Magic": f"{MAGIC:#010x}u",
        "Version": f"{VERSION}u",
        "HeaderBytes": HEADER_BYTES,
        "ExtensionOffset": EXTENSION_OFFSET,
        "ExtensionBytes": EXTENSION_BYTES,
        "RegionAlignment": REGION_ALIGNMENT,
        "DefaultRingBytes": ring.DEFAULT_RING_BYTES,
        "ErrorBytes": ERROR_BYTES,
        "RingHeadBytes": ring.HEAD_BYTES,
        "RingReadPosition": ring.READ_POSITION,
        "RingWriterPark": ring.WRITER_PARK,
        "RingSkip": f"{ring.SKIP:#x}u",
        "RingSmallest": ring.SMALLEST,
        "ImagesMagic": f"{image_file.MAGIC:#x}u",
        "ImagesVersion": image_file.VERSION,
    }
    times = {_pascal(name): value for name, value in timing.NATIVE.items()}
    fields = sorted(FIELDS.values(), key=lambda place: place.offset)
    errors = (TransportError, *TransportError.__subclasses__())
    states = {name: value for name, value in vars(EngineState).items() if name.isupper()}
    return "\n".join(
        [
            _CSHARP_HEAD,
            "namespace LuckyTransport",
            "{",
            *_csharp_constants(
                "SegmentLayout", "Sizes and marks of a segment, its rings and its files of images.", layout
            ),
            *_csharp_constants(
                "Timing", "How long a side looks, yields and parks: lucky_transport/shm/timing.py.", times
            ),
            "    /// <summary>Byte offsets of the header's fields.</summary>",
            "    public static class HeaderField",
            "    {",
            *(
                line
                for place in fields
                for line in (
                    f"        /// <summary>{_CSHARP_TYPES.get(place.code, 'byte[]')}: {place.meaning}.</summary>",
                    f"        public const int {_pascal(place.name)} = {place.offset};",
                )
            ),
            "    }",
            "",
            *_csharp_enum("Feature", "What a side understands.", _members(Feature), flags=True),
            *_csharp_enum("ElementType", "Element type of observations and actions.", _numbered(DTYPES)),
            *_csharp_enum("EngineState", "What the engine says of itself.", states),
            *_csharp_enum("Kind", "What an envelope is in the life of its call.", _members(Kind)),
            *_csharp_enum("WireCode", "Class of an error.", {cls.__name__: cls.wire_code for cls in errors}, last=True),
            "}",
            "",
        ]
    )


_CSHARP_TYPES = {"B": "byte", "I": "uint", "Q": "ulong"}


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _numbered(names: tuple[str, ...]) -> dict[str, int]:
    return {_pascal(name): code for code, name in enumerate(names)}


def _members(enum: type[IntEnum] | type[IntFlag]) -> dict[str, int]:
    return {member.name or "": member.value for member in enum}


def _csharp_constants(name: str, summary: str, values: Mapping[str, object]) -> list[str]:
    lines = [f"    /// <summary>{summary}</summary>", f"    public static class {name}", "    {"]
    for key, value in values.items():
        kind = "uint" if str(value).endswith("u") else "int"
        lines.append(f"        public const {kind} {key} = {value};")
    return [*lines, "    }", ""]


def _csharp_enum(
    name: str, summary: str, values: Mapping[str, int], *, flags: bool = False, last: bool = False
) -> list[str]:
    lines = [f"    /// <summary>{summary}</summary>", *(["    [System.Flags]"] if flags else ())]
    lines += [f"    public enum {name} : uint", "    {"]
    lines += [
        f"        {key if key[1:] != key[1:].upper() else _pascal(key)} = {value}," for key, value in values.items()
    ]
    return [*lines, "    }", *([] if last else [""])]
