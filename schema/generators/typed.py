"""What editors and type checkers see of the services: the text of `lucky_transport/client/typed.pyi`.

Every line follows from the table of methods and the message classes, and is laid out as `ruff format` leaves it.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping

from lucky_transport.client.arguments import Arguments, default_text, summary, takes_copy
from lucky_transport.client.service import SERVICES
from lucky_transport.messages import EntityId
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import Method

__all__ = ["render"]

_WIDTH = 120
_HEAD = '''"""The services as editors and type checkers see them.

Generated from proto/ by schema/generate.py; do not edit.
"""

from collections.abc import {collections}
from typing import Any, Literal, TypeAlias, overload

from numpy.typing import NDArray

'''
_ALIASES = """
#: What a list of numbers may be given as.
Floats: TypeAlias = Sequence[float] | NDArray[Any]
Integers: TypeAlias = Sequence[int] | NDArray[Any]
#: What an enum's members are called.
"""
_SCALARS = {"f32": "float", "f64": "float", "bool": "bool", "str": "str", "bytes": "bytes | bytearray | memoryview"}


def render() -> str:
    """Return the text of `lucky_transport/client/typed.pyi`."""
    classes = [_class(name, methods, prefix) for prefix in ("", "Async") for name, methods in SERVICES.items()]
    classes += [_together("", "transport: Transport"), _together("Async", "link: AsyncLink")]
    body = "\n".join(classes)
    head = _HEAD.format(collections="Mapping, Sequence" if "Mapping[" in body else "Sequence")
    return f"{head}{_imports()}\n{_ALIASES}{_enum_names()}\n{body}"


def _enum_names() -> str:
    """Return an alias for the names of each enum that a request holds."""
    enums = {
        field.enum for methods in SERVICES.values() for row in methods.values() for field in fields_of(row.request)
    }
    lines: list[str] = []
    for enum in sorted((one for one in enums if one is not None), key=lambda one: one.__name__):
        names = ", ".join(f'"{name.lower()}"' for name in enum.__members__)
        lines.append(f"{enum.__name__}Name: TypeAlias = Literal[{names}]\n")
    return "".join(lines)


def _imports() -> str:
    """Return the import statements of all message and enum classes that a signature names."""
    found: dict[str, set[str]] = {
        "lucky_transport.aio": {"AsyncItemStream"},
        "lucky_transport.client.service": {"AsyncLink", "AsyncService", "ItemStream", "Service"},
        "lucky_transport.transport": {"Transport"},
        "lucky_transport.messages": {EntityId.__name__},
    }
    for methods in SERVICES.values():
        for method in methods.values():
            named: list[type] = [method.request, method.response]
            for field in fields_of(method.request):
                named += [cls for cls in (field.message, field.enum) if cls is not None]
            found["lucky_transport.messages"] |= {cls.__name__ for cls in named}
    return "\n".join(_import(module, sorted(names)) for module, names in sorted(found.items()))


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _class(attribute: str, methods: Mapping[str, Method], prefix: str) -> str:
    service = next(iter(methods.values())).service
    lines = [f"class {_class_name(attribute, prefix)}({prefix}Service):", f'    """The methods of {service}."""', ""]
    first_names: dict[int, str] = {}
    for name, method in methods.items():
        if method.id in first_names:
            lines.append(f"    {name} = {first_names[method.id]}\n")
        else:
            first_names[method.id] = name
            lines += _method(name, method, prefix)
    return "\n".join(lines).rstrip() + "\n"


def _class_name(attribute: str, prefix: str) -> str:
    return f"{prefix}{attribute.title().replace('_', '')}Service"


def _together(prefix: str, parameter: str) -> str:
    kind = " for asyncio" if prefix else ""
    lines = [f"class {prefix}Services:", f'    """One attribute per service{kind}."""', ""]
    lines += [f"    {attribute}: {_class_name(attribute, prefix)}" for attribute in SERVICES]
    return "\n".join([*lines, f"    def __init__(self, {parameter}) -> None: ...", ""])


def _method(name: str, method: Method, prefix: str) -> Iterator[str]:
    arguments = Arguments("", method)
    whole, last = f"request: {method.request.__name__}", ["timeout_s: float | None = None"]
    if takes_copy(method):
        last.append("copy: bool = True")
    start, result = _start(name, method, prefix)
    if not arguments.fields:
        parameters = [whole + " = ...", "/", "*", *last]
        yield from _function(start, parameters, result, _documentation(method))
        return
    yield "    @overload"
    yield from _function(start, [whole, "/", "*", *last], result, "")
    yield "    @overload"
    yield from _function(start, [*_parameters(arguments), *last], result, _documentation(method))


def _start(name: str, method: Method, prefix: str) -> tuple[str, str]:
    """Return how the definition begins, and what it returns."""
    response = method.response.__name__
    if method.stream is not None:
        return f"def {name}", f"{prefix}ItemStream[{response}]"
    return f"{'async ' if prefix else ''}def {name}", response


def _parameters(arguments: Arguments) -> Iterator[str]:
    """Yield the parameters of the fields: the identifier or the first field by position, the others by keyword."""
    if arguments.has_identifier:
        yield "name_or_id: str | int | EntityId = ..."
        yield "/"
    starred = False
    for keyword, field in arguments.fields.items():
        if keyword != arguments.first and not starred:
            starred = True
            yield "*"
        yield _parameter(arguments, keyword, field)
        for alias, name in arguments.aliases.items():
            if name == keyword:
                if not starred:
                    starred = True
                    yield "*"
                yield _parameter(arguments, alias, field)
    if not starred:
        yield "*"


def _parameter(arguments: Arguments, keyword: str, field: Field) -> str:
    default = default_text(arguments.request, field)
    return f"{keyword}: {_type(field)} = {'...' if default in ('()', '{}') else default}"


def _type(field: Field) -> str:
    if field.shape == "list" and field.message is None and field.kind in ("f32", "f64"):
        return "Floats"
    if field.shape == "list" and field.message is None and field.kind in ("i32", "u32", "u64") and field.enum is None:
        return "Integers"
    one = _one(field)
    if field.shape == "list":
        return f"Sequence[{one}]"
    if field.shape == "map":
        return f"Mapping[str, {one}]"
    return f"{one} | None" if field.optional or field.message is not None else one


def _one(field: Field) -> str:
    if field.enum is not None:
        return f"{field.enum.__name__} | {field.enum.__name__}Name"
    if field.message is EntityId:
        return "EntityId | int"
    if field.message is not None:
        return f"{field.message.__name__} | Floats" if field.kind == "struct" else field.message.__name__
    return _SCALARS.get(field.kind, "int")


def _documentation(method: Method) -> str:
    gives = "Yields" if method.stream is not None else "Returns"
    text = f"{inspect.getdoc(method.request)}\n\n{gives} {method.response.__name__}: {summary(method.response)}"
    return "\n\n".join(textwrap.fill(" ".join(part.split()), _WIDTH - 11) for part in text.split("\n\n"))


def _function(start: str, parameters: list[str], result: str, documentation: str) -> Iterator[str]:
    parameters = ["self", *parameters]
    end = f") -> {result}:" + ("" if documentation else " ...")
    line = f"    {start}({', '.join(parameters)}{end}"
    if len(line) <= _WIDTH:
        yield line
    elif len(inner := f"        {', '.join(parameters)}") <= _WIDTH:
        yield from (f"    {start}(", inner, f"    {end}")
    else:
        yield f"    {start}("
        yield from (f"        {parameter}," for parameter in parameters)
        yield f"    {end}"
    if documentation:
        first, *others = documentation.splitlines()
        yield f'        """{first}'
        yield from (f"        {other}" if other else "" for other in others)
        yield '        """\n'
