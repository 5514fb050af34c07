"""The C# kit's classes: each message and the envelope, with what reads and writes it; and the table of methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import IntEnum
from typing import Any
from xml.sax.saxutils import escape

from lucky_transport import messages
from lucky_transport.codec.envelope import Envelope, ImagePlace, Metadatum
from lucky_transport.codec.layout import WIDTHS, struct_of
from lucky_transport.messages import _generated
from lucky_transport.messages.fields import MAX_DEPTH, Field, fields_of
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport.messages.scalars import is_struct

__all__ = ["messages_file", "methods_file"]

_HEAD = """\
// {title}
//
// Generated from proto/ by schema/generate.py; do not edit.

using System.Collections.Generic;

namespace LuckyTransport
{{"""
_TYPES = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint", "u64": "ulong", "bool": "bool", "str": "string"}
#: The part of a method's name in `TableReader` and `TableWriter`.
_WORDS = {"f32": "Single", "f64": "Double", "i32": "Int32", "u32": "UInt32", "u64": "UInt64", "bool": "Bool"}
_WORDS |= {"str": "Text", "bytes": "Bytes", "message": "Table", "struct": "Struct"}
_WIDTH = 120


def messages_file() -> str:
    """Return the text of the C# kit's `Messages.cs`."""
    named = [getattr(messages, name) for name in _generated.MODULE_OF]
    lines = [_HEAD.format(title="The messages of schema/hazel_rpc.fbs, and the envelope around them.")]
    lines += [
        "    /// <summary>What the reader of messages needs to know of all of them.</summary>",
        "    internal static class MessageLimits",
        "    {",
        "        /// <summary>How deep tables may lie in tables.</summary>",
        f"        internal const int Depth = {MAX_DEPTH};",
        "    }",
    ]
    for cls in named:
        lines += _enum(cls) if issubclass(cls, IntEnum) else _message(cls, "public")
    for cls in (Metadatum, ImagePlace, Envelope):
        lines += _message(cls, "internal")
    return "\n".join([*lines, "}", ""])


def methods_file() -> str:
    """Return the text of the C# kit's `Methods.cs`."""
    services: dict[str, list[Method]] = {}
    for row in METHODS:
        services.setdefault(row.service.rpartition(".")[2], []).append(row)
    title = "The methods that an engine may answer, by their services."
    lines = [_HEAD.format(title=title), *_summary(title, "    "), "    public static class Methods", "    {"]
    lines += [
        "        internal static readonly Dictionary<uint, string> Names = new Dictionary<uint, string>",
        "        {",
    ]
    lines += [f'            {{ {row.id}, "{row.name}" }},' for row in METHODS]
    lines += ["        };", ""]
    for service, rows in services.items():
        lines += [f"        public static class {service}", "        {"]
        lines += [line for row in rows for line in _method(row)]
        lines += ["        }", ""]
    return "\n".join([*lines[:-1], "    }", "}", ""])


def _method(row: Method) -> Iterator[str]:
    kind = "UnaryMethod" if row.stream is None else "StreamMethod"
    generic = f"{kind}<{row.request.__name__}, {row.response.__name__}>"
    yield f"            public static readonly {generic} {row.short_name} ="
    yield f"                new {generic}({row.id}, Runs.{row.runs.name.capitalize()});"


def _enum(cls: type[IntEnum]) -> list[str]:
    lines = ["", *_summary(_first_sentence(cls), "    "), f"    public enum {cls.__name__}", "    {"]
    return [*lines, *(f"        {_pascal(one.name)} = {one.value}," for one in cls), "    }"]


def _message(cls: type[Any], access: str) -> list[str]:
    fields = fields_of(cls)
    base = "Struct" if is_struct(cls) else "Message"
    lines = ["", *_summary(_first_sentence(cls), "    "), f"    {access} sealed class {cls.__name__} : {base}", "    {"]
    for field in fields:
        lines.append(f"        public {_type(field)} {_name(field, cls)} {{ get; set; }}{_default(field)}")
    lines += [""] if fields else []
    lines += _struct_code(cls, fields) if is_struct(cls) else _table_code(cls, fields)
    return [*lines, "    }"]


def _struct_code(cls: type[Any], fields: tuple[Field, ...]) -> Iterator[str]:
    layout, places, end = struct_of(cls), list[int](), 0
    for field in fields:
        end += -end % WIDTHS[field.kind]
        places.append(end)
        end += WIDTHS[field.kind]
    yield f"        internal override int Size {{ get {{ return {layout.size}; }} }}"
    yield ""
    yield f"        internal override int Alignment {{ get {{ return {layout.alignment}; }} }}"
    yield ""
    yield from _body(
        "internal override void Read(ByteReader from, int at)",
        [f"{_name(f, cls)} = from.{_WORDS[f.kind]}(at + {at});" for f, at in zip(fields, places, strict=True)],
    )
    yield ""
    yield from _body(
        "internal override void Write(ByteWriter to, int at)",
        [f"to.Put{_WORDS[f.kind]}(at + {at}, {_name(f, cls)});" for f, at in zip(fields, places, strict=True)],
    )


def _table_code(cls: type[Any], fields: tuple[Field, ...]) -> Iterator[str]:
    yield from _body(
        "internal override void Read(TableReader table)",
        [f"{_name(field, cls)} = {_read(field, slot)};" for slot, field in enumerate(fields)],
    )
    yield ""
    yield from _body(
        "internal override void Write(TableWriter table)",
        [f"table.{_write(field, slot, cls)};" for slot, field in enumerate(fields)],
    )
    if holds_images(cls):
        yield ""
        yield from _body("internal override void FindImages(List<ImageFrame> found)", _finds(cls, fields))


def _finds(cls: type[Any], fields: tuple[Field, ...]) -> list[str]:
    if cls.__name__ == "ImageFrame":
        return ["found.Add(this);"]
    holding = [field for field in fields if field.kind == "message" and holds_images(field.message or cls)]
    lines: list[str] = []
    for field in holding:
        name = _name(field, cls)
        if field.shape == "list":
            lines.append(f"foreach (var one in {name}) one.FindImages(found);")
        else:
            assert field.shape == "one", f"{cls.__name__}.{field.name}: a map of images has no code"
            lines.append(f"if ({name} != null) {name}.FindImages(found);")
    return lines


def _body(head: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        yield f"        {head} {{ }}"
        return
    yield f"        {head}"
    yield "        {"
    yield from (f"            {line}" for line in lines)
    yield "        }"


def _read(field: Field, slot: int) -> str:
    word, of = _WORDS[field.kind], f"<{field.message.__name__}>" if field.message else ""
    if field.enum:
        assert field.shape == "one", f"{field.name}: a list of an enum has no code"
        assert not field.optional, f"{field.name}: an enum that may be absent has no code"
        return f"({field.enum.__name__})table.{word}({slot})"
    if field.shape == "map":
        return f"table.{word}Map{of}({slot})"
    if field.shape == "list":
        return f"table.{word}List{of}({slot})"
    return f"table.{word}{'OrNull' if field.optional else ''}{of}({slot})"


def _write(field: Field, slot: int, cls: type[Any]) -> str:
    word, name = _WORDS[field.kind], _name(field, cls)
    if field.enum:
        return f"{word}({slot}, ({_TYPES[field.kind]}){name})"
    if field.shape != "one":
        return f"{word}{field.shape.capitalize()}({slot}, {name})"
    if cls.__name__ == "ImageFrame" and field.kind == "bytes":
        return f"Image({slot}, {name})"
    return f"{word}{'OrNull' if field.optional else ''}({slot}, {name})"


def _type(field: Field) -> str:
    if field.enum:
        return field.enum.__name__
    if field.kind == "bytes":
        assert field.shape == "one", f"{field.name}: a list of bytes has no code"
        return "byte[]"
    one = field.message.__name__ if field.message else _TYPES[field.kind]
    if field.shape == "map":
        return f"Dictionary<string, {one}>"
    return one + ("[]" if field.shape == "list" else "?" if field.optional else "")


def _default(field: Field) -> str:
    if field.shape == "map":
        return f" = new {_type(field)}();"
    if field.shape == "list":
        return f" = new {_type(field)[:-1]}0];"
    return {"str": ' = "";', "bytes": " = new byte[0];"}.get(field.kind, "")


def _name(field: Field, cls: type[Any]) -> str:
    name = "".join(word[:1].upper() + word[1:] for word in field.name.split("_"))
    return f"{name}Value" if name == cls.__name__ else name  # a member cannot have its class's name


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _first_sentence(cls: type[Any]) -> str:
    text = " ".join((inspect.getdoc(cls) or cls.__name__).partition("\n\n")[0].split())
    return text


def _summary(text: str, indent: str) -> Iterator[str]:
    words, line = f"<summary>{escape(text)}</summary>".split(), f"{indent}///"
    for word in words:
        if len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = f"{indent}///"
        line += f" {word}"
    yield line
