"""Small changes of what a transport brings; each function returns what makes the transport that has it from another."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, starmap
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.methods import Method
from lucky_transport.transport import Frame, Stream, Transport
from lucky_transport_migration.paths import ConnectedEngine
from tests.planted.plant import PlantedTransport

Over = Callable[[Transport], Transport]
Items = Callable[[Iterator[Any]], Iterator[Any]]


def connecting(endpoint: str, *changes: Over) -> Callable[[], Transport]:
    """Return what connects to an endpoint, with changes."""

    def connect() -> Transport:
        transport = api.open_transport(endpoint)
        for over in changes:
            transport = over(transport)
        return transport

    return connect


def over_path(patch: Any, name: str, *changes: Over) -> None:
    """Have each connection to engines over the path of that name changed, while `patch` lasts."""
    connect = ConnectedEngine.connect

    def connected(link: ConnectedEngine) -> Transport:
        transport = connect(link)
        for over in changes if link.path.name == name else ():
            transport = over(transport)
        return transport

    patch.setattr(ConnectedEngine, "connect", connected)


def asking(name: str, change: Callable[[Any], Any]) -> Over:
    """Return the plant of requests of a method that are changed on their way."""

    class Asking(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            return super().call(method, change(request) if method.python_name == name else request, deadline)

    return Asking


def answers(row: Method, alter: Callable[[Any], object]) -> Over:
    """Plant something into a copy of each answer to a method."""

    class Planted(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            answer = self.inner.call(method, request, deadline)
            if method is row:
                answer = copy.deepcopy(answer)
                alter(answer)
            return answer

    return Planted


def errors(alter: Callable[[TransportError], TransportError]) -> Over:
    """Plant something into each error of a call."""

    class Planted(PlantedTransport):
        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            try:
                return self.inner.call(method, request, deadline)
            except TransportError as error:
                raise alter(error) from error

    return Planted


def fails(where: Method | int, error: Exception) -> Over:
    """Raise in place of each answer to a method, or of the frame of an exchange and all behind it."""

    class Failing(PlantedTransport):
        def recv(self, deadline: Deadline | None = None) -> Frame:
            if isinstance(where, int) and self.exchange >= where:
                raise error
            return super().recv(deadline)

        def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
            if method is where:
                raise error
            return super().call(method, request, deadline)

    return Failing


def frames(alter: Callable[[Frame], object], at: int = 0) -> Over:
    """Plant something into the frame of an exchange, 0 = into each."""

    class Planted(PlantedTransport):
        def change(self, frame: Frame) -> None:
            if at in (0, self.exchange):
                alter(frame)

    return Planted


def one_bit(at: int = 0, env: int = -1) -> Over:
    """Flip the lowest bit of the first observation of an env in an exchange, 0 = in each."""

    def alter(frame: Frame) -> None:
        frame.observations[env].reshape(-1).view(np.uint8)[0] ^= 1

    return frames(alter, at)


class PlantedStream(Stream):
    """The items of `found` in place of those of `inner`."""

    def __init__(self, inner: Stream, found: Iterator[Any], passes_cancel: bool = True) -> None:
        self.inner, self.found, self._passes_cancel = inner, found, passes_cancel

    @property
    def dropped(self) -> int:  # type: ignore[override]
        return self.inner.dropped

    def __next__(self) -> Any:
        return next(self.found)

    def cancel(self) -> None:
        if "inner" in vars(self) and self._passes_cancel:
            self.inner.cancel()


def items(row: Method, alter: Items) -> Over:
    """Plant something into the items of a stream; after a cancel it raises what the stream raises."""

    class Planted(PlantedTransport):
        def stream(self, method: Method, request: Any, deadline: Deadline | None = None, **given: Any) -> Stream:
            stream = self.inner.stream(method, request, deadline, **given)
            return PlantedStream(stream, alter(iter(stream))) if method is row else stream

    return Planted


def each(alter: Callable[[Any], object]) -> Items:
    """Plant something into a copy of each item."""

    def altered(item: Any) -> Any:
        item = copy.deepcopy(kept(item))
        alter(item)
        return item

    return lambda found: map(altered, found)


def pixels(only: int | None = None) -> Items:
    """Change a pixel of the image of that number, None = of each."""

    def altered(at: int, image: ImageFrame) -> ImageFrame:
        data = bytearray(image.data)
        data[5] ^= only in (None, at)
        return replace(image, data=bytes(data))

    return lambda found: starmap(altered, enumerate(found))


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
        yield from reversed([kept(one) for one in islice(found, 2)])
        yield from found

    return alter


def kept(item: Any) -> Any:
    """Return an item that stays as it is: an image that is not copied is one until the next item alone."""
    return replace(item, data=bytes(item.data)) if isinstance(item, ImageFrame) else item


def only(count: int, error: Exception | None = None) -> Items:
    """End after so many items, with an error or without."""

    def alter(found: Iterator[Any]) -> Iterator[Any]:
        yield from islice(found, count)
        if error is not None:
            raise error

    return alter
