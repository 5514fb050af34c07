"""The lines of Python that encode and decode one field. `compiled` makes a class's encoder and decoder of them.

    load    fetches the field of the message `m` into v{i} and adds its bit to `present` where it is to be written
    write   appends what lies outside the table to `out`: it begins at `start`, what follows it at `end`
    read    reads what begins at `start` into v{i}, and moves `end` behind it

{i} is the field's index, {source} the expression that fetches it, {bit} its bit in `present`, {width} the bytes of one
element. X{i} is the field's own packer or class, E{i} finds members of its enum, W{i}, R{i} and A{i} write, read and
align the tables in it. All other names are those of `runtime`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from lucky_transport.codec.layout import CODES, WIDTHS, slot_of, struct_of
from lucky_transport.codec.runtime import ScalarMap, ScalarVector
from lucky_transport.messages.fields import Field


class Snippets(NamedTuple):
    """The lines for one sort of field; `present` is the condition under which it is written, `absent` its default.

    A field that lies in the table, all of it, has neither `write` nor `read`.
    """

    load: str
    write: str = ""
    read: str = ""
    absent: str = "None"
    present: str = "v{i}"


_SCALAR = Snippets("v{i} = {source}\n")

#: Packing would take anything for true or false.
_BOOL = Snippets("v{i} = {source}\nif v{i} is not True and v{i} is not False:\n    v{i} = as_bool(v{i})\n")

_OPTIONAL = Snippets("v{i} = {source}\nif v{i} is None:\n    v{i} = 0\nelse:\n    present += {bit}\n")

_OPTIONAL_BOOL = Snippets("""\
v{i} = {source}
if v{i} is None:
    v{i} = False
else:
    v{i} = as_bool(v{i})
    present += {bit}
""")

#: {variables} are the struct's fields in the table, {attributes} the same in the message.
_STRUCT = Snippets("""\
v{i} = {source}
if v{i} is None:
    {variables} = {zeros}
elif v{i}.__class__ is X{i}:
    {variables} = {attributes}
    present += {bit}
else:
    raise SlowPath
""")

#: The value of a map's entry, which is always there.
_STRUCT_OF_MAP = Snippets("""\
v{i} = {source}
if v{i}.__class__ is not X{i}:
    raise SlowPath
{variables} = {attributes}
""")

#: By shape, follows the reading of several members of an enum.
_FIND_MEMBERS = {
    "list": "v{i} = [E{i}(n, n) for n in v{i}]\n",
    "map": "v{i} = {{key: E{i}(n, n) for key, n in v{i}.items()}}\n",
}

#: Follows the load of a list or map of bools.
_CHECK_BOOLS = "check_bools(v{i})\n"

_LOAD_LIST = """\
v{i} = {source}
if v{i}.__class__ is not list:
    v{i} = as_list(v{i})
if v{i}:
    present += {bit}
"""

_LOAD_MAP = """\
v{i} = {source}
if v{i}.__class__ is not dict:
    raise SlowPath
if v{i}:
    present += {bit}
"""

#: A vector's content starts at a multiple of 8: that of bytes too, so that a buffer in them can be read in place.
_PAD_CONTENT = """\
if not end & 4:
    out.append(PADDING[4])
    end += 4
"""

_TEXT = Snippets(
    """\
v{i} = encode_text({source})
if v{i}:
    present += {bit}
""",
    """\
start = end
n = len(v{i})
out.append(STRING[n](n, v{i}))
end += n + 8 & -4
""",
    """\
n, = unpack_u32(data, start)
start += 4
end = start + n
if data[end]:
    raise SlowPath
v{i} = data[start:end].decode()
""",
    '""',
)

_BYTES = Snippets(
    """\
v{i} = {source}
if v{i}.__class__ is not bytes:
    v{i} = as_bytes(v{i})
if v{i}:
    present += {bit}
""",
    """\
start = end
n = len(v{i})
out.append(pack_u32(n))
out.append(v{i})
end += 4 + n
if n & 3:
    out.append(PADDING[-n & 3])
    end += -n & 3
""",
    """\
n, = unpack_u32(data, start)
start += 4
end = start + n
if end > size:
    raise SlowPath
v{i} = data[start:end]
""",
    'b""',
)

#: An array of just these scalars is loaded as its bytes.
_SCALARS = Snippets(
    """\
v{i} = {source}
if v{i}.__class__ is not list:
    v{i} = X{i}.listed(v{i})
if v{i}:
    present += {bit}
""",
    """\
start = end
n = len(v{i})
if v{i}.__class__ is list:
    out.append(X{i}.pack[n](n, *v{i}))
else:
    n //= {width}
    out.append(pack_u32(n))
    out.append(v{i})
    out.append(PADDING[-n * {width} & 3])
end += 7 + n * {width} & -4
""",
    """\
n, = unpack_u32(data, start)
start += 4
end = start + n * {width}
if end > size:
    raise SlowPath
v{i} = [*X{i}.unpack[n](data, start)]
""",
    "[]",
)

_STRUCTS = Snippets(
    _LOAD_LIST,
    """\
start = end
packed = X{i}.pack_all(v{i})
out.append(pack_u32(len(v{i})))
out.append(packed)
end += 4 + len(packed)
if end & 3:
    out.append(PADDING[-end & 3])
    end += -end & 3
""",
    """\
n, = unpack_u32(data, start)
start += 4
end = start + n * {width}
if end > size:
    raise SlowPath
v{i} = X{i}.unpack_all(data[start:end])
""",
    "[]",
)

_TEXTS = Snippets(
    _LOAD_LIST,
    "start = end\nend = write_strings(v{i}, end, out)\n",
    "v{i}, end = read_strings(data, size, start)\n",
    "[]",
)

_TABLE = Snippets(
    "v{i} = {source}\nif v{i} is not None:\n    present += {bit}\n",
    """\
if end % A{i}:
    out.append(PADDING[4])
    end += 4
start = end
end = W{i}(v{i}, end, out, vtables)
""",
    "v{i}, end = R{i}(data, size, start)\n",
    present="v{i} is not None",
)

_TABLES = Snippets(
    _LOAD_LIST,
    "start = end\nend = write_tables(v{i}, end, out, vtables, W{i}, A{i})\n",
    "v{i}, end = read_tables(data, size, start, R{i})\n",
    "[]",
)

_SCALAR_MAP = Snippets(
    _LOAD_MAP,
    "start = end\nend = X{i}.write(v{i}, end, out, vtables)\n",
    "v{i}, end = X{i}.read(data, size, start)\n",
    "{{}}",
)

#: Keys are sorted by their characters, which is the order of their UTF-8 bytes, by which every peer searches them.
_MAP = Snippets(
    _LOAD_MAP,
    "start = end\nend = write_tables(sorted(v{i}.items()), end, out, vtables, W{i}, A{i})\n",
    """\
pairs, end = read_tables(data, size, start, R{i})
v{i} = dict(pairs)
if len(v{i}) < len(pairs):
    raise SlowPath
""",
    "{{}}",
)


@dataclass(slots=True)
class FieldCode:
    """The code of one field. `code` and `alignment` are those of what lies in the table, `width` is one element's of
    what lies outside. `at`, its byte in the table, and `bit`, 0 = never absent, are set once the table is laid out.

    source: the expression that fetches it. names: what its lines refer to beside `runtime`. variables: what is packed
    into the table and unpacked from it, in order.
    """

    index: int
    field: Field
    snippets: Snippets
    source: str
    code: str
    alignment: int
    width: int
    names: dict[str, Any]
    variables: list[str]
    pads_content: bool
    is_required: bool
    at: int = 0
    bit: int = 0

    @property
    def size(self) -> int:
        """Bytes inside the table."""
        return struct.calcsize(f"<{self.code}")

    @property
    def can_be_absent(self) -> bool:
        """False for fields that are written even where they have the default."""
        return self.snippets not in (_SCALAR, _BOOL) and not self.is_required

    def load(self) -> str:
        """Return the lines that fetch the field from the message."""
        is_many = self.field.kind == "bool" and self.field.shape != "one"
        return self._fill(self.snippets.load + (_CHECK_BOOLS if is_many else ""))

    def write(self) -> str:
        """Return the lines that append what lies outside the table, and leave its offset in o{i}."""
        if not self.snippets.write:
            return ""
        lines = (_PAD_CONTENT if self.pads_content else "") + self.snippets.write
        present = "True" if self.is_required else self.snippets.present
        found = indented(f"{lines}o{{i}} = start - at - {self.at}\n")
        return self._fill(f"if {present}:\n{found}else:\n    o{{i}} = 0\n")

    def read(self) -> str:
        """Return the lines that make v{i} of what was unpacked from the table."""
        i = self.index
        present = "True" if self.is_required else f"present & {self.bit}"
        if self.snippets.read:
            found = indented(f"start = at + {self.at} + o{i}\nif start < end or start & 3:\n    raise SlowPath\n")
            found += indented(self.snippets.read)
            if self.field.enum is not None:
                found += indented(_FIND_MEMBERS[self.field.shape])
            return self._fill(f"if {present}:\n{found}else:\n    v{i} = {self.snippets.absent}\n")
        value = f"v{i}"
        if self.field.kind == "struct":
            value = f"X{i}({', '.join(self.variables)})"
        elif self.field.enum is not None:
            value = f"E{i}(v{i}, v{i})"
        if self.bit:
            value += f" if {present} else None"
        return "" if value == f"v{i}" else f"v{i} = {value}\n"

    def _fill(self, lines: str) -> str:
        names = [variable.removeprefix(f"v{self.index}_") for variable in self.variables]
        return lines.format(
            i=self.index,
            source=self.source,
            bit=self.bit,
            width=self.width,
            variables=", ".join(self.variables),
            zeros=", ".join("0" for _ in names),
            attributes=", ".join(f"v{self.index}.{name}" for name in names),
        )


def field_code(
    index: int, field: Field, tables: dict[str, Any], source: str = "", is_required: bool = False
) -> FieldCode:
    """Return the code of field `index`.

    tables: the names by which its lines refer to the tables in it, of messages, bytes and maps to other than scalars.
    source: the expression that fetches it, by default the message's attribute. is_required: written even where empty.
    """
    i, kind, is_one = index, field.kind, field.shape == "one"
    code, alignment = slot_of(field)
    names, width, widest, variables = dict(tables), 0, 0, [f"v{i}"]
    if field.enum is not None:
        names[f"E{i}"] = {int(each): each for each in field.enum}.get
    if field.shape == "map":
        snippets = _SCALAR_MAP if kind in CODES else _MAP
        if kind in CODES:
            names[f"X{i}"] = ScalarMap(kind)
    elif kind == "message":
        snippets = _TABLE if is_one else _TABLES
    elif kind == "bytes" and not is_one:
        snippets = _TABLES
    elif kind == "struct":
        layout = struct_of(cast(type, field.message))
        alone = _STRUCT_OF_MAP if is_required else _STRUCT
        snippets, width, widest = (alone if is_one else _STRUCTS), layout.size, layout.alignment
        names[f"X{i}"] = layout.cls if is_one else layout
        variables = [f"v{i}_{name}" for name in layout.names]
    elif kind in CODES and is_one:
        plain, optional = (_BOOL, _OPTIONAL_BOOL) if kind == "bool" else (_SCALAR, _OPTIONAL)
        snippets = optional if field.optional else plain
    elif kind in CODES:
        snippets, width, widest = _SCALARS, WIDTHS[kind], WIDTHS[kind]
        names[f"X{i}"] = ScalarVector(kind)
    else:
        snippets, widest = (_BYTES, 8) if kind == "bytes" else (_TEXT if is_one else _TEXTS, 0)
    if snippets.write:
        variables = [f"o{i}"]
    source = source or f"m.{field.name}"
    return FieldCode(i, field, snippets, source, code, alignment, width, names, variables, widest == 8, is_required)


def indented(lines: str, columns: int = 4) -> str:
    """Return the lines that many columns further right."""
    return "".join(f"{' ' * columns}{line}\n" for line in lines.splitlines())
