"""Differences between two answers of one service, as its handlers give them, and the words that each must show.

One list for every tool: `test_answers.py` holds them against the comparison in memory, tests/exhaustive/planted runs
the tools on a server that answers so (`answering_server.py`), with one plant of each aspect. Each plant has a method of
its own there, which takes and answers Structs; answers of other messages are of the comparison in memory alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FieldOptions, UninterpretedOption
from google.protobuf.struct_pb2 import Struct
from google.protobuf.wrappers_pb2 import FloatValue

SERVICE = "plants.v1.Plants"

Metadata = Sequence[tuple[str, str | bytes]]


@dataclass(frozen=True)
class Answer:
    """What one side answers. is_local: its caller's own side ended it, which no handler can plant."""

    items: tuple[Any, ...] = ()
    code: str = "OK"
    details: str = ""
    headers: Metadata = ()
    trailing: Metadata = (("served", "yes"),)
    is_local: bool = False


@dataclass(frozen=True)
class AnswerPlant:
    """One difference: what gRPC answers, and what shared memory does. words: of its place and values. tools: that are
    run on it.
    """

    control: Answer
    candidate: Answer
    aspect: str
    words: tuple[str, ...]
    verdict: str = "different"
    tools: tuple[str, ...] = ()
    name: str = ""

    @property
    def method(self) -> str:
        """The method that has it, by its full name."""
        return f"/{SERVICE}/{'Watch' if self.streams else 'Get'}{''.join(filter(str.isalnum, self.name.title()))}"

    @property
    def streams(self) -> bool:
        return len(self.control.items) > 1

    @property
    def refuses(self) -> bool:
        """True where a side refuses a request that has it."""
        return self.control.code != "OK" or self.candidate.code != "OK"


def is_refused(request: Struct) -> bool:
    """True for the requests that a plant which refuses meets: others are accepted, over both."""
    return sum(request.SerializeToString(deterministic=True)) % 2 == 1


def struct(**fields: Any) -> Struct:
    found = Struct()
    found.update(fields)
    return found


def numbered(*numbers: float) -> tuple[Struct, ...]:
    return tuple(struct(number=number) for number in numbers)


_ALL = ("parity", "from", "replay", "staged")
_OK = Answer((struct(number=0.1, text="a", list=["x", "y"], deep={"er": {"x": 1.5}}),))
_MANY = Answer(numbered(*range(264)))
_LOST = numbered(*(number for number in range(264) if number != 260))
_CHANGED = numbered(*(-1 if number == 260 else number for number in range(264)))


def _of_item(alter: Callable[[Any], object]) -> Answer:
    item = Struct()
    item.CopyFrom(_OK.items[0])
    alter(item.fields)
    return Answer((item,))


def _unknown(item: Struct) -> Struct:
    found = Struct()
    found.MergeFromString(item.SerializeToString(deterministic=True) + b"\xf8\x3f\x01")
    return found


def _refused(code: str, details: str = "try again", **rest: Any) -> Answer:
    return Answer((), code, details, **rest)


def _kinds() -> dict[str, AnswerPlant]:
    of_item = {
        "last bit of a double": (lambda one: setattr(one["number"], "number_value", math.nextafter(0.1, 1)), "number"),
        "a NaN": (lambda one: setattr(one["number"], "number_value", math.nan), "number"),
        "text": (lambda one: setattr(one["text"], "string_value", "A"), "text"),
        "another kind of value": (lambda one: setattr(one["text"], "null_value", 0), "text"),
        "a value that is not set": (lambda one: one["text"].Clear(), "text"),
        "entry of a map": (lambda one: one.pop("text"), "fields['text']"),
        "order of a list": (lambda one: one["list"].list_value.values.reverse(), "list"),
        "deep in a map": (lambda one: one["deep"].struct_value["er"].update({"x": 1.0}), "fields['x']"),
    }
    found = {name: AnswerPlant(_OK, _of_item(alter), "item", (place,)) for name, (alter, place) in of_item.items()}
    found["last bit of a double"] = replace(found["last bit of a double"], tools=_ALL)
    for name, one, other, place in (
        ("int64", UninterpretedOption(negative_int_value=2**62), UninterpretedOption(negative_int_value=2**62 + 1), ""),
        ("bytes", UninterpretedOption(string_value=b"\0\1"), UninterpretedOption(string_value=b"\0\2"), "string_value"),
        ("a default that is set", UninterpretedOption(double_value=0.0), UninterpretedOption(), "double_value"),
        (
            "enum",
            FieldDescriptorProto(type=FieldDescriptorProto.TYPE_BOOL),
            FieldDescriptorProto(type=FieldDescriptorProto.TYPE_BYTES),
            "type",
        ),
        ("an absent message", FieldDescriptorProto(options=FieldOptions()), FieldDescriptorProto(), "options"),
        ("last bit of a float", FloatValue(value=0.3), FloatValue(value=0.30000004), "value"),
    ):
        found[name] = AnswerPlant(Answer((one,)), Answer((other,)), "item", (place,))
    found["unknown field"] = AnswerPlant(_OK, Answer((_unknown(_OK.items[0]),)), "item", ("description lacks",))
    few = Answer(numbered(0, 1, 2, 3))
    found |= {
        "item lost": AnswerPlant(few, Answer(numbered(0, 1, 3)), "count", ("without item 2",), tools=_ALL),
        "item added": AnswerPlant(few, Answer(numbered(0, 1, 2, 2.5, 3)), "count", ("without item 3",)),
        "items reordered": AnswerPlant(few, Answer(numbered(0, 2, 1, 3)), "order", ("items[1]",), tools=_ALL),
        "late item lost": AnswerPlant(_MANY, Answer(_LOST), "count", ("264 items", "263 items"), tools=_ALL),
        "late item changed": AnswerPlant(_MANY, Answer(_CHANGED), "item", ("items",), tools=_ALL),
        "status behind many items": AnswerPlant(
            _MANY, replace(_MANY, code="ABORTED", details="no more"), "code", ("ABORTED: no more",), tools=("replay",)
        ),
        "headers": AnswerPlant(_OK, replace(_OK, headers=(("x", "1"),)), "headers", ("x", "absent"), tools=_ALL),
        "a trailer": AnswerPlant(
            _OK, replace(_OK, trailing=(("served", "no"),)), "trailing", ("served", "no"), tools=_ALL
        ),
        "a binary trailer": AnswerPlant(
            replace(_OK, trailing=(("x-bin", b"\0\1"),)), replace(_OK, trailing=()), "trailing", ("x-bin", "absent")
        ),
        "order of a key's values": AnswerPlant(
            replace(_OK, trailing=(("a", "1"), ("a", "2"))),
            replace(_OK, trailing=(("a", "2"), ("a", "1"))),
            "trailing",
            ("1 2", "2 1"),
        ),
        "another status": AnswerPlant(
            _refused("NOT_FOUND"), _refused("ABORTED"), "code", ("NOT_FOUND", "ABORTED"), tools=_ALL
        ),
        "one more blank": AnswerPlant(
            _refused("NOT_FOUND"), _refused("NOT_FOUND", "try again "), "details", ("'",), tools=_ALL
        ),
        "late": AnswerPlant(
            _OK, _refused("DEADLINE_EXCEEDED", is_local=True), "late", ("DEADLINE_EXCEEDED",), verdict="failed"
        ),
        "gone": AnswerPlant(_OK, _refused("UNAVAILABLE", is_local=True), "code", ("UNAVAILABLE",), verdict="failed"),
    }
    return found


def _of_handlers() -> dict[str, AnswerPlant]:
    """Return statuses that a transport has too, and that are the handler's here: an answer as any other."""
    found: dict[str, AnswerPlant] = {}
    for code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
        mine, tools = _refused(code), _ALL if code == "UNAVAILABLE" else ("parity",)
        found |= {
            f"{code} of the handler, and OK": AnswerPlant(mine, _OK, "code", (code, "OK"), tools=tools),
            f"OK, and {code} of the handler": AnswerPlant(_OK, mine, "code", (code, "OK")),
            f"details of {code}": AnswerPlant(
                mine, _refused(code, "later"), "details", ("try again", "later"), tools=tools
            ),
            f"trailer of {code}": AnswerPlant(mine, replace(mine, trailing=()), "trailing", ("served", "absent")),
        }
    return found


PLANTS = {name: replace(plant, name=name) for name, plant in (_kinds() | _of_handlers()).items()}
