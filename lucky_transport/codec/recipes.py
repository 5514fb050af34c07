"""The lines of Python of which `template` makes a writer and a reader: for each sort of field one recipe.

    load   fetches the field into v{i} and adds its bit to `key` where it is present
    put    appends what lies outside the table, leaves its place in `start`, advances `end`
    take   reads what `start` points to into v{i} and advances `end`
    absent what v{i} is otherwise

Rule 1: {i} is the field's number, {source} where it is fetched from, {bit} its bit in `key`, {width} of one element.
Rule 2: X{i} is a field's own class or packer, E{i} finds members of its enum, P{i}, T{i} and A{i} are `put`, `take` and
        alignment of the tables it holds; other names are those of `parts`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BOOL_LOAD", "OPTIONAL_BOOL_LOAD", "OPTIONAL_LOAD", "RARE_LOAD", "RECIPES", "STRUCT_LOAD", "Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The lines for one sort of field; `given` is the condition under which it is written."""

    load: str
    put: str
    take: str
    absent: str
    given: str = "v{i}"


_PAD_CONTENT = """\
if not end & 4:
    out.append(PADDING[4])
    end += 4
"""

_PAD_TABLE = """\
if end % A{i}:
    out.append(PADDING[4])
    end += 4
"""

_LOAD_LIST = """\
v{i} = {source}
if v{i}.__class__ is not list:
    v{i} = as_list(v{i})
if v{i}:
    key += {bit}
"""

_LOAD_SCALARS = """\
v{i} = {source}
if v{i}.__class__ is not list:
    v{i} = X{i}.listed(v{i})
if v{i}:
    key += {bit}
"""

#: What is no list are the bytes of an array.
_PUT_SCALARS = """\
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
"""

_TEXT = Recipe(
    load="""\
v{i} = encode({source})
if v{i}:
    key += {bit}
""",
    put="""\
start = end
n = len(v{i})
out.append(TEXT[n](n, v{i}))
end += n + 8 & -4
""",
    take="""\
n, = unpack_u32(data, start)
start += 4
end = start + n
if data[end]:
    raise Unusual
v{i} = data[start:end].decode()
""",
    absent='""',
)

_BLOB = Recipe(
    load="""\
v{i} = {source}
if v{i}.__class__ is not bytes:
    v{i} = as_bytes(v{i})
if v{i}:
    key += {bit}
""",
    put=_PAD_CONTENT
    + """\
start = end
n = len(v{i})
out.append(pack_u32(n))
out.append(v{i})
end += 4 + n
if n & 3:
    out.append(PADDING[-n & 3])
    end += -n & 3
""",
    take="""\
n, = unpack_u32(data, start)
start += 4
end = start + n
if end > size:
    raise Unusual
v{i} = data[start:end]
""",
    absent='b""',
)

_TAKE_SCALARS = """\
n, = unpack_u32(data, start)
start += 4
end = start + n * {width}
if end > size:
    raise Unusual
v{i} = [*X{i}.unpack[n](data, start)]
"""

_PUT_STRUCTS = """\
start = end
packed = X{i}.pack_all(v{i})
out.append(pack_u32(len(v{i})))
out.append(packed)
end += 4 + len(packed)
if end & 3:
    out.append(PADDING[-end & 3])
    end += -end & 3
"""

_TAKE_STRUCTS = """\
n, = unpack_u32(data, start)
start += 4
end = start + n * {width}
if end > size:
    raise Unusual
v{i} = X{i}.unpack_all(data[start:end])
"""

_LOAD_MAP = """\
v{i} = {source}
if v{i}.__class__ is not dict:
    raise Unusual
if v{i}:
    key += {bit}
"""

_TAKE_MAP = """\
pairs, end = take_tables(data, size, start, T{i})
v{i} = dict(pairs)
if len(v{i}) < len(pairs):
    raise Unusual
"""

RECIPES: dict[str, Recipe] = {
    "text": _TEXT,
    "blob": _BLOB,
    "scalars": Recipe(_LOAD_SCALARS, _PUT_SCALARS, _TAKE_SCALARS, "[]"),
    "wide scalars": Recipe(_LOAD_SCALARS, _PAD_CONTENT + _PUT_SCALARS, _TAKE_SCALARS, "[]"),
    "structs": Recipe(_LOAD_LIST, _PUT_STRUCTS, _TAKE_STRUCTS, "[]"),
    "wide structs": Recipe(_LOAD_LIST, _PAD_CONTENT + _PUT_STRUCTS, _TAKE_STRUCTS, "[]"),
    "texts": Recipe(
        _LOAD_LIST,
        "start = end\nend = put_texts(v{i}, end, out)\n",
        "v{i}, end = take_texts(data, size, start)\n",
        "[]",
    ),
    "table": Recipe(
        "v{i} = {source}\nif v{i} is not None:\n    key += {bit}\n",
        _PAD_TABLE + "start = end\nend = P{i}(v{i}, end, out, vtables)\n",
        "v{i}, end = T{i}(data, size, start)\n",
        "None",
        given="v{i} is not None",
    ),
    "tables": Recipe(
        _LOAD_LIST,
        "start = end\nend = put_tables(v{i}, end, out, vtables, P{i}, A{i})\n",
        "v{i}, end = take_tables(data, size, start, T{i})\n",
        "[]",
    ),
    "scalar map": Recipe(
        _LOAD_MAP,
        "start = end\nend = X{i}.put(v{i}, end, out, vtables)\n",
        "v{i}, end = X{i}.take(data, size, start)\n",
        "{{}}",
    ),
    "map": Recipe(
        _LOAD_MAP,
        "start = end\nend = put_tables(sorted(v{i}.items()), end, out, vtables, P{i}, A{i})\n",
        _TAKE_MAP,
        "{{}}",
    ),
}

#: A scalar that may be None.
OPTIONAL_LOAD = "v{i} = {source}\nif v{i} is None:\n    v{i} = 0\nelse:\n    key += {bit}\n"

#: Packing would take anything for true or false.
BOOL_LOAD = "v{i} = {source}\nif v{i} is not True and v{i} is not False:\n    raise Unusual\n"

#: A scalar that may be None, and has to be one of these otherwise.
OPTIONAL_BOOL_LOAD = """\
v{i} = {source}
if v{i} is True or v{i} is False:
    key += {bit}
elif v{i} is None:
    v{i} = 0
else:
    raise Unusual
"""

#: A struct lies in the table; {items} are its fields' variables, {attributes} the same fetched from the struct.
STRUCT_LOAD = """\
v{i} = {source}
if v{i} is None:
    {items} = {zeros}
elif v{i}.__class__ is X{i}:
    {items} = {attributes}
    key += {bit}
else:
    raise Unusual
"""

#: Fields without a recipe go this way only where they are empty.
RARE_LOAD = "if {source} != {absent}:\n    raise Unusual\n"
