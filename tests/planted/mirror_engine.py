"""The toy engine with every method of LuckyEngine, each answered by a hash of its request: no field of it is left out.

An answer also tells how many steps were made before, so that the world of a stream moves. Equal requests in equal
worlds have equal answers. Of fields of which one counts, the hash says which. A stream goes on until its call is over;
one that has a short deadline ends by itself, since who sees a deadline first is a matter of load.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from random import Random
from typing import Any, cast

from lucky_transport.call import Call
from lucky_transport.engine import Engine, Handler, StreamHandler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.messages import ImageFrame, StepRequest
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS, Flow, Method
from lucky_transport.messages.scalars import one_of_fields

#: The methods that it answers.
MIRRORED = tuple(row for row in METHODS if row.service.startswith("hazel.rpc."))
_HZ = 1000
_SHORT_S = 2.0
_MOST = 40  # numbers of joints and the like are among them, and requests are made that long

#: A number's wire type holds it exactly.
_KINDS: dict[str, Callable[[Random], Any]] = {
    "f32": lambda random: random.randint(1, 1 << 20) / 1024,
    "f64": lambda random: 1.0 + random.random(),
    **dict.fromkeys(("i32", "u32"), lambda random: random.randint(1, _MOST)),
    "u64": lambda random: random.getrandbits(64) | 1,
    "bool": lambda random: True,
    "str": lambda random: f"{random.getrandbits(32):08x}",
    "bytes": lambda random: random.randbytes(24),
}


def filled(kind: Any, random: Random) -> Any:
    """Return a message none of whose fields is empty."""
    rivals = one_of_fields(kind)
    left_out = set(rivals) - ({random.choice(rivals)} if rivals else set())
    return kind(**{one.name: _value(one, random) for one in fields_of(kind) if one.name not in left_out})


def _value(field: Field, random: Random) -> Any:
    make: Callable[[], Any] = partial(_KINDS.get(field.kind, lambda random: filled(field.message, random)), random)
    if field.enum is not None:
        make = partial(random.choice, [each for each in field.enum if each])
    if field.shape == "one":
        return make()
    return [make(), make()] if field.shape == "list" else {"a": make(), "b": make()}


def said(value: Any) -> Any:
    """Return what a request says, whatever the order of a map: of fields of which one counts, the first one given."""
    if isinstance(value, list):
        return [said(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return [(key, said(each)) for key, each in sorted(cast("dict[str, Any]", value).items())]
    if not is_dataclass(value):
        return value
    rivals = one_of_fields(type(value))
    given = next((name for name in rivals if getattr(value, name) not in (None, "")), "")
    names = [one.name for one in fields_of(type(value)) if one.name == given or one.name not in rivals]
    return [(name, said(getattr(value, name))) for name in names]


class MirrorEngine(ToyEngine):
    """See the module; `options` are those of `ToyEngine`."""

    _steps = 0

    @property
    def services(self) -> Mapping[str, Handler]:
        unary = (row for row in MIRRORED if row.stream is None)
        return {**super().services, **{row.name: partial(self._answer, row) for row in unary}}

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return {row.name: partial(self._items, row) for row in MIRRORED if row.stream is not None}

    def _answer(self, row: Method, request: Any, item: int = 0) -> Any:
        self._steps += isinstance(request, StepRequest)
        return filled(row.response, Random(f"{row.name} {said(request)!r} {self._steps} {item}"))

    def _items(self, row: Method, request: Any, call: Call) -> Iterator[Any]:
        is_short = call.deadline is not None and call.deadline.remaining_s < _SHORT_S
        for number, _ in enumerate([0] if is_short else call.ticks(_HZ), 1):
            with call.between_steps():  # items that a slow reader misses are like the others
                item = self._answer(row, request, number if row.stream is Flow.EVERY else 0)
            if isinstance(item, ImageFrame):
                item.frame_number = number
            yield item


def make_engine(variant: str = "", num_envs: int = 1, **options: Any) -> Engine:
    """Return a MirrorEngine."""
    return MirrorEngine(num_envs, **options)
