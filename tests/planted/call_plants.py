"""Differences of typed calls, streams, deadlines and errors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, TransportError
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.methods import Method, method
from lucky_transport.transport import Stream, Transport
from tests.planted.plant import Plant, PlantedTransport

__all__ = ["CALL_PLANTS"]

_JOINTS = method("MujocoService/GetJointState")
_ENTITIES = method("SceneService/ListEntities")
_REFUSED = method("LidarService/GetLidarBeamCount")
_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_STEP = method("AgentService/Step")
_SLOTS = method("AgentService/StreamPolicySlotState")
_ENDLESS = method("AgentService/StreamRobotController")
_STATES = method("MujocoService/StreamJointState")
_IMAGES = method("CameraService/StreamCamera")

R = "replay of calls"


def proof(name: str) -> str:
    """Return the tool that proves the methods of that name."""
    return f"parity --method {name}"


Answer = Callable[[Any, Any], Any]
Items = Callable[[Iterator[Any]], Iterator[Any]]


def answers(row: Method, alter: Callable[[Any], Any]) -> Callable[[Transport], Transport]:
    """Plant something into a copy of each answer to a method."""

    class Planted(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            answer = self.inner.call(method, request, deadline)
            if method is row:
                answer = copy.deepcopy(answer)
                alter(answer)
            return answer

    return Planted


def errors(alter: Callable[[TransportError], TransportError]) -> Callable[[Transport], Transport]:
    """Plant something into each error of a call."""

    class Planted(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            try:
                return self.inner.call(method, request, deadline)
            except TransportError as error:
                raise alter(error) from error

    return Planted


class _Stream(Stream):
    def __init__(self, inner: Stream, items: Iterator[Any], passes_cancel: bool) -> None:
        self.inner, self._items, self._passes_cancel = inner, items, passes_cancel

    @property
    def dropped(self) -> int:  # type: ignore[override]
        return self.inner.dropped

    def __next__(self) -> Any:
        return next(self._items)

    def cancel(self) -> None:
        if "inner" in vars(self) and self._passes_cancel:
            self.inner.cancel()


def items(row: Method, alter: Items) -> Callable[[Transport], Transport]:
    """Plant something into the items of a stream; after a cancel it raises what the stream raises."""

    class Planted(PlantedTransport):
        def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
            stream = self.inner.stream(method, request, deadline, **given)
            return _Stream(stream, alter(iter(stream)), True) if method is row else stream

    return Planted


class CancelIsKept(PlantedTransport):
    """Streams end here when they are left, and go on in the engine."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._kept: list[Stream] = []

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
        inner = self.inner.stream(method, request, deadline, **given)
        self._kept.append(inner)

        class Left(_Stream):
            def cancel(self) -> None:
                from lucky_transport.errors import Cancelled

                def gone() -> Iterator[Any]:
                    raise Cancelled(f"{method.name} was cancelled", backend="shm")
                    yield

                self._items = gone()

        return Left(inner, iter(inner), False)


class ItemsAfterACancel(PlantedTransport):
    """Streams hand out what had come before they were left."""

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
        inner = self.inner.stream(method, request, deadline, **given)
        came: list[Any] = []

        class Kept(_Stream):
            def cancel(self) -> None:
                super().cancel()
                self._items = iter(came)

        def items() -> Iterator[Any]:
            for item in inner:
                came[:] = [item]
                yield item

        return Kept(inner, items(), True)


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


class RequestsLoseAField(PlantedTransport):
    """The name of a robot is left out of requests."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if isinstance(request, _JOINTS.request) and request.robot_name not in ("", "agent_0"):
            request = replace(request, robot_name="")
        return self.inner.call(method, request, deadline)


class RaisesItsOwn(PlantedTransport):
    """A call raises an error of another library."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if method is _JOINTS:
            raise RuntimeError("a plugin broke")
        return self.inner.call(method, request, deadline)


def _of_other_class(error: TransportError) -> TransportError:
    return ConfigError(str(error), backend=error.backend)


def _with_a_blank(error: TransportError) -> TransportError:
    return type(error)(f"{error} ", backend=error.backend)


def _with_other_hint(error: TransportError) -> TransportError:
    error.hint = "ask your administrator"
    return error


def without(number: int) -> Items:
    """Leave out an item."""
    return lambda found: (item for at, item in enumerate(found) if at != number)


def doubled(number: int) -> Items:
    """Give an item twice."""
    return lambda found: (item for at, one in enumerate(found) for item in [one] * (1 + (at == number)))


def swapped(number: int) -> Items:
    """Swap an item with the next one."""

    def alter(found: Iterator[Any]) -> Iterator[Any]:
        yield from islice(found, number)
        first = [_kept(one) for one in islice(found, 2)]
        yield from reversed(first)
        yield from found

    return alter


def _kept(item: Any) -> Any:
    """Return an item that stays as it is: an image that is not copied is one until the next item alone."""
    return replace(item, data=bytes(item.data)) if isinstance(item, ImageFrame) else item


def only(count: int) -> Items:
    """End after so many items."""
    return lambda found: islice(found, count)


def pixels(numbers: Callable[[int], bool]) -> Items:
    """Change a pixel of the images with these numbers."""

    def alter(found: Iterator[Any]) -> Iterator[Any]:
        for at, item in enumerate(found):
            yield _off(item) if numbers(at) else item

    return alter


def _off(image: ImageFrame) -> ImageFrame:
    data = bytearray(image.data)
    data[5] ^= 1
    return replace(image, data=bytes(data))


def renumbered(found: Iterator[Any]) -> Iterator[Any]:
    """Add to the numbers of images."""
    return (replace(item, frame_number=item.frame_number + 1000) for item in found)


def _streams() -> Iterator[Plant]:
    """Yield the differences of each kind of stream: one of everything, one of the latest, one of images."""
    for name, row in (("slots", _SLOTS), ("states", _STATES), ("images", _IMAGES)):
        tool = proof(row.short_name)
        for at in (1, 10):
            lost = (f"without item {at} of the other",)
            for what, alter, words in (
                ("left out", without(at), lost),
                ("doubled", doubled(at), (f"without item {at + 1} of the other",)),
                ("swapped", swapped(at), (f"items[{at}]", f"item {at + 1}")),
            ):
                found = {tool: ("DIFFERENT", row.name, *words), R: words}
                yield Plant(f"item {at} of {name} {what}", f"item {at} {what}", items(row, alter), found=found)
        words = ("29 items, without item 29 of the other",)
        yield Plant(
            f"last of {name} lost", "the last item is lost", items(row, only(29)), found={tool: words, R: words}
        )


CALL_PLANTS: tuple[Plant, ...] = (
    Plant(
        "error of another class",
        "another class of error with the same text",
        errors(_of_other_class),
        found={
            proof("GetLidarBeamCount"): ("GetLidarBeamCount differs (code)", "ConfigError:"),
            R: ("code differs", "NOT_FOUND", "INVALID_ARGUMENT"),
        },
    ),
    Plant(
        "blank in an error",
        "one more blank in an error's text",
        errors(_with_a_blank),
        found={
            proof("GetLidarBeamCount"): ("differs (details)", " '; LidarSensorRequest"),
            R: ("details differ", "there is '"),
        },
    ),
    Plant(
        "another hint",
        "the same class and text with another hint",
        errors(_with_other_hint),
        found={proof("GetLidarBeamCount"): ("details of", "hint", "ask your administrator")},
        unseen={R: ("compared: status", "not compared: hints of errors")},
    ),
    Plant(
        "error of another library",
        "an exception that is none of the product's",
        RaisesItsOwn,
        found={
            proof("GetJointState"): ("OK", "RuntimeError: a plugin broke"),
            R: ("RuntimeError: a plugin broke",),
        },
    ),
    Plant(
        "deadlines ignored",
        "a deadline is taken for one of ten minutes",
        DeadlinesAreIgnored,
        found={proof("StreamRobotController"): ("PeerTimeout", "after its deadline", "expires in the handler")},
        unseen={R: ("not compared: deadlines",)},
    ),
    Plant(
        "cancel kept",
        "a stream that is left goes on in the engine",
        CancelIsKept,
        found={proof("StreamRobotController"): ("the engine's handler after the stream was left", "'runs on'")},
        unseen={R: ("not compared: what comes of a stream that was left",)},
    ),
    Plant(
        "items after a cancel",
        "a stream that is left hands out what had come before",
        ItemsAfterACancel,
        found={proof("StreamRobotController"): ("another item came after the cancel",)},
        unseen={R: ("not compared: what comes of a stream that was left",)},
    ),
    *_streams(),
    Plant(
        "the latest end early",
        "a stream that may skip items ends before its end, and skipped none",
        items(_STATES, only(1)),
        found={proof("StreamJointState"): ("1 items, without items 1 to 29",), R: ("1 items, without items 1 to 29",)},
    ),
    Plant(
        "a pixel of every image",
        "one bit of a pixel of every image",
        items(_IMAGES, pixels(lambda number: True)),
        found={
            proof("StreamCamera"): ("items[0].data[5]", "shm 5, planted 4"),
            R: ("items[0].data[5]", "recorded 33, planted 32"),
        },
    ),
    Plant(
        "a pixel from image 6 on",
        "one bit of a pixel of every image from the seventh on",
        items(_IMAGES, pixels(lambda number: number >= 6)),
        found={proof("StreamCamera"): ("items[6].data[5]",), R: ("items[6].data[5]", "recorded 75", "planted 74")},
    ),
    Plant(
        "a pixel of image 6",
        "one bit of a pixel of one image",
        items(_IMAGES, pixels(lambda number: number == 6)),
        found={proof("StreamCamera"): ("items[6].data[5]",), R: ("items[6].data[5]", "recorded 75", "planted 74")},
    ),
    Plant(
        "frame numbers",
        "1000 is added to the numbers of images",
        items(_IMAGES, renumbered),
        unseen={
            proof("StreamCamera"): ("not compared: ImageFrame.frame_number",),
            R: ("not compared: ImageFrame.frame_number",),
        },
    ),
    Plant(
        "a list is cut",
        "a list ends after 128 elements",
        answers(_ENTITIES, lambda answer: answer.entities.__delitem__(slice(128, None))),
        found={proof("ListEntities"): ("len(entities)", "200", "128"), R: ("len(entities)", "200", "128")},
    ),
    Plant(
        "a large id is rounded",
        "an id above 2^53 goes through a double",
        answers(_ENTITIES, lambda answer: setattr(answer.entities[0].id, "id", int(float(answer.entities[0].id.id)))),
        found={proof("ListEntities"): ("entities[0].id.id", str(2**53)), R: ("entities[0].id.id", str(2**53))},
    ),
    Plant(
        "a text is cut at NUL",
        "a text ends at its first NUL",
        answers(_ENTITIES, lambda answer: setattr(answer.entities[3], "name", "entity")),
        found={proof("ListEntities"): ("entities[3].name",), R: ("entities[3].name",)},
    ),
    Plant(
        "a message is absent",
        "an empty message stands for one",
        answers(_ENTITIES, lambda answer: setattr(answer.entities[7], "id", None)),
        found={proof("ListEntities"): ("entities[7].id",), R: ("entities[7].id",)},
    ),
    Plant(
        "a value of another type",
        "a text stands where a number belongs",
        answers(_JOINTS, lambda answer: answer.state and answer.state.positions.__setitem__(0, "far")),
        found={proof("GetJointState"): ("response", "far"), R: ("response", "far")},
    ),
    Plant(
        "a request's field is lost",
        "a field of a request does not arrive",
        RequestsLoseAField,
        found={proof("GetJointState"): ("GetJointState differs", "robot_name="), R: ("state.positions[0]",)},
    ),
    Plant(
        "stale answers",
        "a call is answered as the one before",
        StaleAnswers,
        found={proof("GetJointState"): ("DIFFERENT", "GetJointState"), R: ("DIFFERENT", "GetJointState")},
    ),
    Plant(
        "a step twice",
        "a Step is made twice",
        twice(_STEP),
        found={proof("Step"): ("frame_number",), R: ("frame_number",)},
    ),
    Plant(
        "a setting twice",
        "what sets the same thing again is made twice",
        twice(_SEEDS),
        unseen={
            proof("SetSeeds"): ("not compared: whether a call was made once",),
            R: ("not compared: whether a call was made once",),
        },
    ),
)
