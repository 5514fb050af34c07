"""How the engine's services answer: each method by the Python method of its name, an error by a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.errors import TransportError, UnknownName, did_you_mean
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport_mujoco.world import MujocoWorlds

T = TypeVar("T")

#: First fields of responses that say whether a request was done.
_DONE = ("success", "ok", "found")

_USUAL_HZ = 30
_MOST_HZ = 1000


class Service:
    """Answers a service of LuckyEngine: its method SetQpos by `set_qpos`, where that is there.

    A handler that returns nothing has done what was asked for. Its TransportErrors, raised before anything is changed,
    become responses that say so with the error's text; where the response has no field for that they are raised.
    """

    #: The service's name without its package.
    service: ClassVar[str]

    def __init__(self, world: MujocoWorlds) -> None:
        self.world = world

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the unary methods, by full method name."""
        return {row.name: _answering(row, act) for row, act in self._methods() if row.stream is None}

    def streams(self) -> dict[str, StreamHandler]:
        """Return the handlers of the streams, by full method name."""
        return {row.name: _streaming(row, act) for row, act in self._methods() if row.stream is not None}

    def _methods(self) -> Iterator[tuple[Method, Callable[..., Any]]]:
        for row in METHODS:
            if row.service == "hazel.rpc." + self.service and hasattr(self, row.python_name):
                yield row, getattr(self, row.python_name)


def _answering(row: Method, act: Callable[[Any], Any]) -> Handler:
    def handle(request: Any) -> Any:
        try:
            found = act(request)
        except TransportError as error:
            return _refusal(row, error)
        return row.response(True) if found is None else found

    return handle


def _streaming(row: Method, act: Callable[[Any, Call], Iterator[Any]]) -> StreamHandler:
    def stream(request: Any, call: Call) -> Iterator[Any]:
        try:
            yield from act(request, call)
        except TransportError as error:
            yield _refusal(row, error)

    return stream


def _refusal(row: Method, error: TransportError) -> Any:
    names = [item.name for item in fields(row.response)]
    if names[0] not in _DONE:
        raise error
    text = {"message": str(error)} if "message" in names else {}
    return row.response(**{names[0]: False}, **text)


def rate_hz(target_fps: int) -> int:
    """Return the items per second for a client that asked for `target_fps`."""
    return min(target_fps, _MOST_HZ) if target_fps > 0 else _USUAL_HZ


def sampled(call: Call, target_fps: int, make: Callable[[], T]) -> Iterator[T]:
    """Yield what `make` returns between two steps, at that rate."""
    for _ in call.ticks(rate_hz(target_fps)):
        with call.between_steps():
            item = make()
        yield item


def unknown_name(what: str, name: object, known: Iterable[str]) -> UnknownName:
    """Return the error for a name that nothing has, with the nearest one and all there are; `what` begins its text."""
    names = list(known)
    return UnknownName(f"{what} {name!r}", hint=f"{did_you_mean(name, names)}there are: {', '.join(names)}")
