"""Python modules of message classes, one for each `.proto` file, and the rows of the method table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from generators.protos import Comment, ProtoEnum, ProtoError, ProtoField, ProtoFile, ProtoMessage, read

__all__ = ["ProtoError", "render", "render_world"]

_PACKAGE = "lucky_transport.messages._generated"
_WIDTH = 120
_HINTS = {"f32": "F32", "f64": "F64", "i32": "I32", "u32": "U32", "u64": "U64"}
_DEFAULTS = {"f32": "0.0", "f64": "0.0", "bool": "False", "str": '""', "bytes": 'b""'}


def render(descriptors: bytes) -> dict[str, str]:
    """Return the text of each module in `lucky_transport/messages/_generated`, by file name.

    Raises ProtoError for what cannot be generated.
    """
    files = read(descriptors)
    module_of = {each.name: file.module for file in files for each in (*file.enums, *file.messages)}
    enums = {enum.name: enum for file in files for enum in file.enums}
    texts = {f"{file.module}.py": _module(file, f"proto/{file.module}.proto", module_of, enums) for file in files}
    texts["__init__.py"] = _package(files)
    texts["methods.py"] = _methods(files, module_of)
    return texts


def render_world(descriptors: bytes, path: str) -> str:
    """Return the text of the module with a world's messages, those that the file at `path` marks with `class`.

    Raises ProtoError for what cannot be generated.
    """
    [file] = read(descriptors)
    module_of = {each.name: file.module for each in (*file.enums, *file.messages)}
    return _module(file, path, module_of, {enum.name: enum for enum in file.enums})


def _package(files: list[ProtoFile]) -> str:
    names = {file.module: [each.name for each in (*file.enums, *file.messages)] for file in files}
    return "\n".join(
        [
            '"""All message classes by name. Generated from proto/ by schema/generate.py; do not edit."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import TYPE_CHECKING",
            "",
            "if TYPE_CHECKING:",
            *(f"    from {_PACKAGE}.{module} import *  # noqa: F403" for module in sorted(names)),
            "",
            "#: The module of each class, in the order of proto/.",
            "MODULE_OF = {",
            *(f'    "{name}": "{module}",' for module, of_module in names.items() for name in of_module),
            "}",
            "",
        ]
    )


def _methods(files: list[ProtoFile], module_of: dict[str, str]) -> str:
    rows = sorted((method for file in files for method in file.methods), key=lambda method: method.id)
    modules = sorted({module_of[name] for row in rows for name in (row.request, row.response)})
    lines = [
        '"""The rows of the method table. Generated from proto/ by schema/generate.py; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        _import(_PACKAGE, modules),
        "from lucky_transport.messages.method import Effect, Flow, Method, Runs",
        "",
        '__all__ = ["METHODS"]',
        "",
        "READ, VIEW, WORLD = Effect.READ, Effect.VIEW, Effect.WORLD",
        "INLINE, ENGINE, POOL = Runs.INLINE, Runs.ENGINE, Runs.POOL",
        "LATEST, EVERY = Flow.LATEST, Flow.EVERY",
        "",
        "# fmt: off",
        "METHODS: tuple[Method, ...] = (",
    ]
    for row in rows:
        request, response = (f"{module_of[name]}.{name}" for name in (row.request, row.response))
        last = [request, response, row.effect.upper(), row.runs.upper(), *([row.stream.upper()] if row.stream else [])]
        lines += [f'    Method({row.id}, "{row.path}",', f"        {', '.join(last)}),"]
    return "\n".join([*lines, ")", "# fmt: on", ""])


def _module(file: ProtoFile, path: str, module_of: dict[str, str], enums: dict[str, ProtoEnum]) -> str:
    fields = [field for message in file.messages for field in message.fields]
    head = f"Generated from {path} by schema/generate.py; do not edit."
    lines = [_docstring((*file.comment.paragraphs[:1], head), ""), "", "from __future__ import annotations", ""]
    if file.messages:
        factories = any(field.shape != "one" for field in fields)
        lines.append(f"from dataclasses import dataclass{', field' if factories else ''}")
    lines += ["from enum import IntEnum"] if file.enums else []
    lines += ["from typing import Annotated"] if any(field.kind == "enum" for field in fields) else []
    lines += ["", *_imports(file, fields, module_of), ""]
    lines.append(_all(sorted(each.name for each in (*file.enums, *file.messages))))
    for enum in file.enums:
        lines += ["", "", *_enum(enum)]
    for message in file.messages:
        lines += ["", "", *_message(message, enums)]
    return "\n".join([*lines, ""]).replace("\n\n\n\n", "\n\n\n")


def _imports(file: ProtoFile, fields: list[ProtoField], module_of: dict[str, str]) -> Iterator[str]:
    others: dict[str, set[str]] = {}
    for field in fields:
        if field.type and module_of[field.type] != file.module:
            others.setdefault(f"{_PACKAGE}.{module_of[field.type]}", set()).add(field.type)
    scalars = {_HINTS[field.kind] for field in fields if field.kind in _HINTS}
    scalars |= {"Buffer" for field in fields if "buffer" in field.comment.marks}
    scalars |= {"one_of" for field in fields if field.one_of}
    scalars |= {{"list": "no_items", "map": "no_entries"}[field.shape] for field in fields if field.shape != "one"}
    scalars |= {"struct" for message in file.messages if "struct" in message.comment.marks}
    if scalars:
        others["lucky_transport.messages.scalars"] = scalars
    for module, names in sorted(others.items()):
        yield _import(module, sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name.lower())))


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _all(names: list[str]) -> str:
    line = f"__all__ = [{_quoted(names)}]"
    if len(line) <= _WIDTH:
        return line
    return "__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]"


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _enum(enum: ProtoEnum) -> Iterator[str]:
    yield f"class {enum.name}(IntEnum):"
    yield _docstring(enum.comment.paragraphs, "    ")
    yield ""
    for name, value, comment in enum.members:
        yield from _commented(f"    {name} = {value}", comment)


def _message(message: ProtoMessage, enums: dict[str, ProtoEnum]) -> Iterator[str]:
    one_of = [field.name for field in message.fields if field.one_of]
    if one_of:
        yield f"@one_of({_quoted(one_of)})"
    if "struct" in message.comment.marks:
        yield "@struct"
    yield "@dataclass(slots=True)"
    yield f"class {message.name}:"
    if not message.comment.paragraphs:
        raise ProtoError(f"{message.name}: a comment must say what the message is")
    yield _docstring(message.comment.paragraphs, "    ")
    if message.fields:
        yield ""
    for field in message.fields:
        yield from _commented(f"    {field.name}: {_hint(field)} = {_default(field, enums)}", field.comment)


def _hint(field: ProtoField) -> str:
    one = _HINTS.get(field.kind, field.kind)
    if field.kind == "enum":
        one = f'Annotated[{field.type}, "i32"]'
    if field.kind == "message":
        one = field.type
    if "buffer" in field.comment.marks:
        one = "Buffer"
    if field.shape == "list":
        return f"list[{one}]"
    if field.shape == "map":
        return f"dict[str, {one}]"
    return f"{one} | None" if field.optional or field.kind == "message" else one


def _default(field: ProtoField, enums: dict[str, ProtoEnum]) -> str:
    if field.shape != "one":
        return f"field(default_factory={'no_items' if field.shape == 'list' else 'no_entries'})"
    if field.optional or field.kind == "message":
        return "None"
    if field.kind == "enum":
        return f"{field.type}.{enums[field.type].members[0][0]}"
    return _DEFAULTS.get(field.kind, "0")


def _commented(line: str, comment: Comment) -> Iterator[str]:
    """Yield a line with its comment, which stands above it where both together are too long."""
    said = " ".join(comment.paragraphs)
    if said and len(f"{line}  # {said}") <= _WIDTH:
        yield f"{line}  # {said}"
        return
    yield from _wrapped(said, _WIDTH, "    # ")
    yield line


def _docstring(paragraphs: Iterable[str], indent: str) -> str:
    first, *others = paragraphs
    lines = _wrapped('"""' + first, _WIDTH, indent)
    if len(lines) == 1 and len(lines[0]) + 3 > _WIDTH:  # the closing quotes alone do not make a second line
        lines = _wrapped('"""' + first, _WIDTH - 3, indent)
    for paragraph in others:
        lines += ["", *_wrapped(paragraph, _WIDTH, indent)]
    if len(lines) == 1:
        return lines[0] + '"""'
    return "\n".join([*lines, indent + '"""'])


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
