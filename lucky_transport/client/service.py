"""The services of an engine as classes with one function per method, made from the table of methods.

    hazel.rpc.MujocoSceneService    client.mujoco_scene
    CameraService/StreamCamera      camera.stream_camera   camera.stream
    CameraService/ListCameras       camera.list_cameras    camera.list
    SceneService/ListEntities       scene.list_entities

A method has a long name, its own in snake_case, and a short one without the words of its service's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from lucky_transport.aio import AsyncCalls, AsyncStream
from lucky_transport.client.arguments import Arguments, docstring, signature, takes_copy
from lucky_transport.deadline import Deadline
from lucky_transport.errors import did_you_mean
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport.transport import Stream, Transport

Item = TypeVar("Item", covariant=True)


def names_of(methods: Iterable[Method]) -> dict[str, Method]:
    """Return the methods of one service by all their names, the short name of each before its long one.

    A method has no short name where nothing would be left of it or two methods would share it.
    """
    rows = list(methods)
    taken = Counter(row.python_name for row in rows)
    taken.update(short for row in rows if (short := _without_service(row)) != row.python_name)
    named: dict[str, Method] = {}
    for row in rows:
        short = _without_service(row)
        if taken[short] == 1 and not iskeyword(short):
            named[short] = row
        named[row.python_name] = row
    return named


def _without_service(method: Method) -> str:
    words = method.python_service.split("_")
    left_out = {*words, *(f"{word}s" for word in words)}
    return "_".join(word for word in method.python_name.split("_") if word not in left_out) or method.python_name


def services_of(methods: Iterable[Method]) -> Mapping[str, Mapping[str, Method]]:
    """Return attribute of the client -> name -> method, in the order of the table."""
    groups: dict[str, list[Method]] = {}
    for row in methods:
        groups.setdefault(row.python_service, []).append(row)
    return {attribute: names_of(rows) for attribute, rows in groups.items()}


#: All services: attribute of the client -> name -> method.
SERVICES: Mapping[str, Mapping[str, Method]] = services_of(METHODS)


class ItemStream(Stream, Generic[Item]):
    """A Stream whose items a type checker knows; at run time it is the transport's own Stream."""

    if TYPE_CHECKING:

        def __next__(self) -> Item: ...


class AsyncLink(Protocol):
    """The connection of an asynchronous service; `calls` raises LocalProtocolError before it is connected."""

    @property
    def calls(self) -> AsyncCalls: ...

    @property
    def transport(self) -> Transport: ...


class _MethodsType(type):
    """Makes the functions of a service class when they are first asked for, by a call or by `help`."""

    def _parts(cls) -> tuple[str, Mapping[str, Method], Callable[[Method, Arguments], Any]]:
        """Return the client's attribute, the methods by name, and what makes the function of one."""
        made = cast("type[_Methods]", cls)
        return made._attribute, made._methods, made._function  # pyright: ignore[reportPrivateUsage]

    def __getattr__(cls, name: str) -> Any:
        attribute, methods, make = cls._parts()
        method = None if name.startswith("__") else methods.get(name)
        if method is None:
            raise AttributeError(_no_method(attribute, name, methods))
        function = make(method, Arguments(f"{attribute}.{name}", method))
        function.__name__, function.__qualname__ = name, f"{cls.__name__}.{name}"
        function.__module__ = cls.__module__
        function.__doc__, function.__signature__ = docstring(method), signature(method)
        setattr(cls, name, function)
        return function

    def __dir__(cls) -> list[str]:
        methods = cls._parts()[1]
        preferred: dict[int, str] = {}
        for name, method in methods.items():
            preferred.setdefault(method.id, name)
        return [*(name for name in super().__dir__() if name not in methods), *preferred.values()]


class _Methods(metaclass=_MethodsType):
    """Methods by name; each becomes a function when it is first used."""

    #: The client's attribute that holds the service.
    _attribute: ClassVar[str] = ""
    #: All names -> method; a method's preferred name comes before its long one.
    _methods: ClassVar[Mapping[str, Method]] = {}

    if not TYPE_CHECKING:  # a type checker knows the methods from typed.pyi and shall refuse all others

        def __getattr__(self, name: str) -> Any:
            return getattr(type(self), name).__get__(self)

    def __dir__(self) -> list[str]:
        return sorted(self._methods)

    @staticmethod
    def _function(method: Method, arguments: Arguments) -> Callable[..., Any]:
        raise NotImplementedError

    def _transport_of(self) -> Transport:
        raise NotImplementedError

    def __repr__(self) -> str:
        transport = self._transport_of()
        lines = [f"<{self._attribute} service of engine {transport.spec.engine!r} over {transport.name}"]
        seen: set[int] = set()
        for name, method in self._methods.items():
            if method.id not in seen:
                seen.add(method.id)
                missing = "  (not implemented by this engine)" if transport.implements(method) is False else ""
                lines.append(f"  {name}{signature(method, bound=True)}{missing}")
        return "\n".join(lines) + ">"


class Service(_Methods):
    """The methods of one service: `service.method(field=value, ..., timeout_s=None)` returns the response, or a stream
    of items.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _transport_of(self) -> Transport:
        return self._transport

    @staticmethod
    def _function(method: Method, arguments: Arguments) -> Callable[..., Any]:
        build = arguments.build

        def call(self: Service, *given: Any, timeout_s: float | None = None, **fields: Any) -> Any:
            request = build(given, fields)
            return self._transport.call(method, request, None if timeout_s is None else _deadline(arguments, timeout_s))

        def stream(self: Service, *given: Any, timeout_s: float | None = None, **fields: Any) -> Any:
            request = build(given, fields)
            return self._transport.stream(method, request, _deadline(arguments, timeout_s))

        def images(self: Service, *given: Any, timeout_s: float | None = None, copy: bool = True, **fields: Any) -> Any:
            if copy:
                return stream(self, *given, timeout_s=timeout_s, **fields)
            return self._transport.stream(method, build(given, fields), _deadline(arguments, timeout_s), copy=False)

        if method.stream is None:
            return call
        return images if takes_copy(method) else stream


class AsyncService(_Methods):
    """The methods of one service for asyncio: `await service.method(...)`, and `async for item in service.method(...)`
    for streams.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    def _transport_of(self) -> Transport:
        return self._link.transport

    @staticmethod
    def _function(method: Method, arguments: Arguments) -> Callable[..., Any]:
        async def call(self: AsyncService, *given: Any, timeout_s: float | None = None, **fields: Any) -> Any:
            request = arguments.build(given, fields)
            return await self._link.calls.call(method, request, _deadline(arguments, timeout_s))

        def stream(self: AsyncService, *given: Any, timeout_s: float | None = None, **fields: Any) -> AsyncStream:
            request = arguments.build(given, fields)
            return self._link.calls.stream(method, request, _deadline(arguments, timeout_s))

        def images(
            self: AsyncService, *given: Any, timeout_s: float | None = None, copy: bool = True, **fields: Any
        ) -> AsyncStream:
            if copy:
                return stream(self, *given, timeout_s=timeout_s, **fields)
            request = arguments.build(given, fields)
            return self._link.calls.stream(method, request, _deadline(arguments, timeout_s), copy=False)

        if method.stream is None:
            return call
        return images if takes_copy(method) else stream


def _deadline(arguments: Arguments, timeout_s: float | None) -> Deadline | None:
    if timeout_s is None:
        return None
    try:
        return Deadline(timeout_s)
    except (TypeError, ValueError):
        kind = ValueError if isinstance(timeout_s, int | float) else TypeError  # pyright: ignore[reportUnnecessaryIsInstance]
        raise kind(f"{arguments.label}: timeout_s: expected seconds >= 0, got {timeout_s!r}") from None


def _no_method(service: str, name: str, methods: Mapping[str, Method]) -> str:
    return f"{service} has no method {name!r}; {did_you_mean(name, methods)}it has: {', '.join(sorted(methods))}"
