"""What a new version of the schema may not do to the released one: every violation, not only the first.

    python -m lucky_transport.testing.evolution schema/released.fbs schema/hazel_rpc.fbs

Rule 1: a table may only grow at its end; a struct never changes; an enum may only get new members with new values.
Rule 2: names are kept too: they are what Protobuf, the dataclasses and the code that flatc generates go by. (`flatc
        --conform` lets fields and tables go and new fields take their places; a deployed peer does not.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lucky_transport.testing.schema import Enum, Item, Schema, read_schema

__all__ = ["main", "violations"]


def violations(released: Schema, new: Schema) -> list[str]:
    """Return what in `new` breaks peers that were built from `released`, a sentence each; [] when nothing does."""
    return [*_heads(released, new), *_tables(released, new), *_structs(released, new), *_enums(released, new)]


def _heads(released: Schema, new: Schema) -> Iterator[str]:
    for what, old, now in (("namespace", released.namespace, new.namespace), ("root", released.root, new.root)):
        if old != now:
            yield f"the {what} was {old} and is {now}"


def _tables(released: Schema, new: Schema) -> Iterator[str]:
    for name, old in released.tables.items():
        now = new.tables.get(name)
        if now is None:
            yield f"table {name} " + ("became a struct" if name in new.structs else "was removed")
        else:
            yield from _fields(name, old, now)


def _fields(table: str, old: tuple[Item, ...], now: tuple[Item, ...]) -> Iterator[str]:
    known = {item.name for item in old}
    places = {item.name: slot for slot, item in enumerate(now)}
    for slot, item in enumerate(old):
        place = f"{table}.{item.name}"
        if item.name in places:
            yield from _field(place, slot, item, places[item.name], now[places[item.name]])
        elif slot < len(now) and now[slot].name not in known:
            yield f"{place} in slot {slot} became {now[slot].name}:{now[slot].type}"
        else:
            yield f"{place} in slot {slot} was removed"
    for slot, item in enumerate(now):
        if item.name not in known and slot < len(old) and old[slot].name in places:
            yield f"{table}.{item.name} was put into slot {slot} before released fields; append it"
        if item.name not in known and "required" in item.mark:
            yield f"{table}.{item.name} is new and required, which no released peer writes"


def _field(place: str, slot: int, old: Item, now_slot: int, now: Item) -> Iterator[str]:
    if now_slot != slot:
        yield f"{place} moved from slot {slot} to {now_slot}"
    if now.type != old.type:
        yield f"{place} was {old.type} and is {now.type}"
    if (now.default or "0") != (old.default or "0"):
        yield f"{place} had the default {old.default or 'zero'} and has {now.default or 'zero'}"
    if _binding(now) != _binding(old):
        yield f"{place} was marked ({old.mark}) and is marked ({now.mark})"


def _binding(item: Item) -> set[str]:
    """Return the marks that matter to a peer; a deprecated field is still in its place."""
    return {mark.strip() for mark in item.mark.split(",") if mark.strip()} - {"deprecated"}


def _structs(released: Schema, new: Schema) -> Iterator[str]:
    for name, old in released.structs.items():
        now = new.structs.get(name)
        if now is None:
            yield f"struct {name} " + ("became a table" if name in new.tables else "was removed")
        elif now != old:
            yield f"struct {name} was {_spelled(old)} and is {_spelled(now)}; a struct never changes"


def _spelled(items: tuple[Item, ...]) -> str:
    return "{" + ", ".join(f"{item.name}:{item.type}" for item in items) + "}"


def _enums(released: Schema, new: Schema) -> Iterator[str]:
    for name, old in released.enums.items():
        now = new.enums.get(name)
        if now is None:
            yield f"enum {name} was removed"
        else:
            yield from _members(name, old, now)


def _members(name: str, old: Enum, now: Enum) -> Iterator[str]:
    if now.type != old.type:
        yield f"enum {name} was of {old.type} and is of {now.type}"
    names = {value: member for member, value in now.members.items()}
    for member, value in old.members.items():
        if member in now.members:
            if now.members[member] != value:
                yield f"{name}.{member} was {value} and is {now.members[member]}"
        elif value not in names:
            yield f"{name}.{member} = {value} was removed"
        if names.get(value, member) != member:
            yield f"{name}: the value {value} of {member} is used again, by {names[value]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print every violation; return 0 when there is none, 1 when there are some, 2 when nothing can be compared."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 2:
        print("usage: python -m lucky_transport.testing.evolution RELEASED.fbs NEW.fbs", file=sys.stderr)
        return 2
    try:
        released, new = (read_schema(Path(name).read_text(encoding="utf-8")) for name in arguments)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = violations(released, new)
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
