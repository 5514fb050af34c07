"""Differences of typed calls, streams, deadlines and errors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, PeerDied, TransportError, UnknownName
from lucky_transport.messages.methods import Method, method
from lucky_transport.transport import Stream, Transport
from tests.planted.changes import (
    PlantedStream,
    answers,
    asking,
    doubled,
    each,
    errors,
    fails,
    items,
    only,
    pixels,
    swapped,
    without,
)
from tests.planted.plant import Plant, PlantedTransport

_JOINTS = method("MujocoService/GetJointState")
_ENTITIES = method("SceneService/ListEntities")
_REFUSED = method("LidarService/GetLidarBeamCount")
_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_STEP = method("AgentService/Step")
_SLOTS = method("AgentService/StreamPolicySlotState")
_ENDLESS = method("AgentService/StreamRobotController")
_STATES = method("MujocoService/StreamJointState")
_IMAGES = method("CameraService/StreamCamera")

C, R, S, T = "parity --method", "replay of calls", "staged", "pytest --lucky-between"


def of_calls(name: str, row: Method, over: Any, *words: str, unseen: Mapping[str, str] | None = None) -> Plant:
    """Return a plant in a method that all three tools find, with the same words, but those in `unseen`."""
    unseen = unseen or {}
    found = tuple(tool for tool in (C, R, S) if tool not in unseen)
    said = {tool: (text,) for tool, text in unseen.items()}
    return Plant(name, over, words, found, said, {C: {"methods": row.short_name}})


class CancelIsKept(PlantedTransport):
    """Streams end here when they are left, and go on in the engine."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._kept: list[Stream] = []

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
        inner = self.inner.stream(method, request, deadline, **given)
        self._kept.append(inner)

        class Left(PlantedStream):
            def cancel(self) -> None:
                from lucky_transport.errors import Cancelled

                def gone() -> Iterator[Any]:
                    raise Cancelled(f"{method.name} was cancelled", backend="shm")
                    yield

                self.found = gone()

        return Left(inner, iter(inner), False)


class ItemsAfterACancel(PlantedTransport):
    """Streams hand out what had come before they were left."""

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
        inner = self.inner.stream(method, request, deadline, **given)
        came: list[Any] = []

        class Kept(PlantedStream):
            def cancel(self) -> None:
                super().cancel()
                self.found = iter(came)

        def items() -> Iterator[Any]:
            for item in inner:
                came[:] = [item]
                yield item

        return Kept(inner, items())


class DeadlinesAreIgnored(PlantedTransport):
    """Every deadline that has not passed is taken for one of ten minutes."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        return self.inner.call(method, request, _later(deadline))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
        return self.inner.stream(method, request, _later(deadline), **given)


def _later(deadline: Deadline | None) -> Deadline | None:
    return deadline if deadline is None or deadline.expired else Deadline(600.0)


class StaleAnswers(PlantedTransport):
    """A method's answer is the one before, from the second call on."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._last: dict[str, Any] = {}

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        answer = self.inner.call(method, request, deadline)
        if method is not _JOINTS:
            return answer
        last, self._last[method.name] = self._last.get(method.name, answer), answer
        return last


def twice(row: Method) -> Callable[[Transport], Transport]:
    """Make each call of a method twice."""

    class Planted(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            if method is row:
                self.inner.call(method, request, deadline)
            return self.inner.call(method, request, deadline)

    return Planted


def _of_other_class(error: TransportError) -> TransportError:
    return ConfigError(str(error), backend=error.backend)


def _with_a_blank(error: TransportError) -> TransportError:
    return type(error)(f"{error} ", backend=error.backend)


def _with_other_hint(error: TransportError) -> TransportError:
    error.hint = "ask your administrator"
    return error


_HINTS = "not compared: hints of errors"
_LEFT = "what comes of a stream that was left"
_DEADLINES = {R: "not compared: deadlines", S: "deadlines that expire"}
_ONCE, _NO_SHADOW = "not compared: whether a call was made once", "it may change the world and is not made twice"


def _streams() -> Iterator[Plant]:
    """Yield the differences of each kind of stream: one of everything, one of the latest, one of images.

    Of images a program under `staged` compares the first few alone.
    """
    for name, row in (("slots", _SLOTS), ("states", _STATES), ("images", _IMAGES)):
        late = {S: "items beyond the last that both sent"} if row is _IMAGES else {}
        for at in (1, 10):
            for what, alter, words in (
                ("left out", without(at), (f"without item {at} of the other",)),
                ("doubled", doubled(at), (f"without item {at + 1} of the other",)),
                ("swapped", swapped(at), (f"items[{at}]", f"item {at + 1}")),
            ):
                unseen = late if at == 10 else {}
                yield of_calls(f"item {at} of {name} {what}", row, items(row, alter), *words, unseen=unseen)
        words = ("29 items, without item 29 of the other",)
        yield of_calls(f"last of {name} lost", row, items(row, only(29)), *words, unseen=late)


CALL_PLANTS: tuple[Plant, ...] = (
    of_calls("error of another class", _REFUSED, errors(_of_other_class), "code", "INVALID_ARGUMENT"),
    of_calls("blank in an error", _REFUSED, errors(_with_a_blank), "details", " '"),
    of_calls(
        "another hint",
        _REFUSED,
        errors(_with_other_hint),
        *("details of", "hint", "ask your administrator"),
        unseen={R: _HINTS, S: "hints of errors"},
    ),
    of_calls("another status", _JOINTS, fails(_JOINTS, UnknownName("planted")), "code", "OK", "NOT_FOUND", "planted"),
    of_calls("error of another library", _JOINTS, fails(_JOINTS, RuntimeError("broke")), "OK", "RuntimeError: broke"),
    of_calls("the peer dies in a call", _JOINTS, fails(_JOINTS, PeerDied("planted")), "JointState", "planted"),
    of_calls(
        "deadlines ignored",
        _ENDLESS,
        DeadlinesAreIgnored,
        *("PeerTimeout", "after its deadline", "expires in the handler"),
        unseen=_DEADLINES,
    ),
    of_calls(
        "cancel kept",
        _ENDLESS,
        CancelIsKept,
        *("the engine's handler after the stream was left", "'runs on'"),
        unseen={R: _LEFT, S: _LEFT},
    ),
    of_calls(
        "items after a cancel",
        _ENDLESS,
        ItemsAfterACancel,
        "another item came after the cancel",
        unseen={R: _LEFT, S: _LEFT},
    ),
    *_streams(),
    of_calls("a pixel of every image", _IMAGES, items(_IMAGES, pixels()), "items[0].data[5]"),
    of_calls("a pixel of image 6", _IMAGES, items(_IMAGES, pixels(6)), "items[6].data[5]"),
    of_calls(
        "frame numbers",
        _IMAGES,
        items(_IMAGES, each(lambda item: setattr(item, "frame_number", item.frame_number + 1000))),
        unseen={**dict.fromkeys((C, R, S), "ImageFrame.frame_number"), T: f"not compared: items of {_IMAGES.name}"},
    ),
    of_calls(
        "a large id is rounded",
        _ENTITIES,
        answers(_ENTITIES, lambda answer: setattr(answer.entities[0].id, "id", int(float(answer.entities[0].id.id)))),
        *("entities[0].id.id", str(2**53), str(2**53 + 1)),
    ),
    of_calls(
        "a request's field is lost",
        _JOINTS,
        asking(_JOINTS.python_name, lambda one: one if one.robot_name == "agent_0" else replace(one, robot_name="")),
        *("GetJointState", "differs"),
    ),
    of_calls("stale answers", _JOINTS, StaleAnswers, "GetJointState", "item"),
    of_calls("a step twice", _STEP, twice(_STEP), "frame_number", unseen={S: _NO_SHADOW}),
    of_calls("a setting twice", _SEEDS, twice(_SEEDS), unseen={C: _ONCE, R: _ONCE, S: _NO_SHADOW}),
)
