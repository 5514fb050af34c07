"""What a switched program finds changed: grpc's factories ask the switch first.

    a channel whose route is      is made by
    gRPC                          the original factory, with the caller's own arguments
    shared memory                 ours (`_over_shm`)
    of stages                     both: those that answer, and those for shadows when they are needed
    recorded                      the one of these that its program would have

All but the last two are counted by `_with_counts`, those by `_counting`, a method and transport at a time.
Everything else of grpc that makes channels (stubs without a channel, the beta API) goes through these four by itself,
because it looks them up when it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from lucky_transport.call_counts import CallCounter, CallCounters, Calls
from lucky_transport.errors import ConfigError
from lucky_transport_stubs.greenlets import why_no_threads
from lucky_transport_stubs.run.luckyrobots import patch_luckyrobots
from lucky_transport_stubs.run.switch import Route, Switch
from lucky_transport_stubs.run.targets import authority_of, canonical

if TYPE_CHECKING:
    from lucky_transport.routing import Count


Factory = Callable[..., Any]

#: What a channel over shared memory takes of a factory's arguments.
_KEPT = ("options", "compression", "interceptors", "credentials")

#: grpc's factories of server credentials, and what ports with them ask of a client that shared memory has not: always,
#: or where an argument of this name is true.
_SERVER_CREDENTIALS = {
    "ssl_server_credentials": ("require_client_auth", "client certificates"),
    "dynamic_ssl_server_credentials": ("require_client_authentication", "client certificates"),
    "local_server_credentials": ("", ""),
    "insecure_server_credentials": ("", ""),
    "alts_server_credentials": ("", "a service account (ALTS)"),
    "xds_server_credentials": ("", "what xDS says"),
}

#: Factories of ours, by which a second patch of the same module is recognised.
_ours: set[Factory] = set()


def patch(grpc: ModuleType, switch: Switch, counters: CallCounters | None) -> None:
    """Make all channels and servers of grpc and grpc.aio ask `switch` from now on; `counters` count their calls.

    A factory that is ours already stays as it is (after importlib.reload(grpc), those of grpc.aio are).
    """
    blocking = {name: inspect.unwrap(getattr(grpc, name)) for name in ("insecure_channel", "secure_channel")}
    for module, kind, stage in ((grpc, "channel", _open_staged), (grpc.aio, "aio_channel", _open_staged_aio)):
        for name in blocking:
            original = getattr(module, name)
            if original not in _ours:
                factories = _Factories(original, functools.partial(_over_shm, kind), stage, blocking[name])
                setattr(module, name, _channel_factory(factories, switch, counters))
    for module, name, kind in ((grpc, "server", "server"), (grpc.aio, "server", "aio_server")):
        if getattr(module, name) not in _ours:
            ours = functools.partial(_over_shm, kind)
            setattr(module, name, _server_factory(getattr(module, name), ours, switch, counters))
    for name, (argument, asked) in _SERVER_CREDENTIALS.items():
        original = getattr(grpc, name, None)
        if original is not None and original not in _ours:
            setattr(grpc, name, _credentials_factory(original, argument, asked))


@contextmanager
def patched(grpc: ModuleType, switch: Switch, counters: CallCounters | None) -> Generator[None]:
    """Patch grpc and grpc.aio as `patch` does, and put the factories back; what was made by then stays as it is.

    Raises ConfigError where they are patched already.
    """
    channels = ("insecure_channel", "secure_channel", "server")
    names = [(grpc, name) for name in (*channels, *_SERVER_CREDENTIALS)] + [(grpc.aio, name) for name in channels]
    before = [(module, name, getattr(module, name)) for module, name in names if hasattr(module, name)]
    if any(factory in _ours for _, _, factory in before):
        text = "the channels of this process are switched already, by `lucky-transport run` or lucky_transport.auto"
        raise ConfigError(text, hint="start it without them")
    patch(grpc, switch, counters)
    try:
        yield
    finally:
        for module, name, factory in before:
            _ours.discard(getattr(module, name))
            setattr(module, name, factory)


class _Factories(NamedTuple):
    """What channels are made by in a factory's place.

    `original` is grpc's own, `blocking` grpc's for threads, of the same security; `over_shm` and `staged` are ours.
    """

    original: Factory
    over_shm: Factory
    staged: Factory
    blocking: Factory


def _over_shm(kind: str, *args: Any, **given: Any) -> Any:
    """Make a channel or server of ours: "channel", "aio_channel", "server", "aio_server"."""
    import lucky_transport_stubs

    return getattr(lucky_transport_stubs, kind)(*args, **given)


def _channel_factory(factories: _Factories, switch: Switch, counters: CallCounters | None) -> Factory:
    signature = inspect.signature(factories.original)

    @functools.wraps(factories.original)
    def make_channel(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named).arguments
        patch_luckyrobots()
        if given.get("credentials", "") is None:
            return factories.original(*args, **named)  # which refuses it
        route = switch.route(_text(given["target"]), _why_not(given.get("credentials")))
        is_recorded = switch.records(route.target, why_no_threads()) and not _is_of_a_transport(given)
        if route.is_staged or is_recorded:
            return factories.staged(factories, route, given, counters)
        if route.endpoint:
            channel = factories.over_shm(route.endpoint, **_kept(given))
        else:
            channel = factories.original(*args, **named)
        return channel if counters is None else _with_counts(channel, route, counters)

    _ours.add(make_channel)
    return make_channel


def _is_of_a_transport(given: Mapping[str, Any]) -> bool:
    """True for a channel of our own transport, whose calls are recorded above it."""
    from lucky_transport_grpc.address import OF_A_TRANSPORT

    options = given.get("options")
    return isinstance(options, (list, tuple)) and (OF_A_TRANSPORT, 1) in options


def _kept(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: given[key] for key in _KEPT if key in given}
    target = _text(given["target"])
    kept["options"] = (*(kept.get("options") or ()), ("lucky_transport.target", canonical(target)))
    if "credentials" in kept:  # plugins are told the host that the program dials, unless options say another
        kept["options"] = (("grpc.ssl_target_name_override", authority_of(target)), *kept["options"])
    return kept


def _why_not(credentials: Any) -> str:
    """Return why a channel with these credentials stays on gRPC in this process, "" where it need not."""
    refusal = why_no_threads()
    if refusal or credentials is None:
        return refusal
    from lucky_transport_stubs.words.credentials import why_no_channel

    return why_no_channel(credentials)


def _open_staged(factories: _Factories, route: Route, given: Mapping[str, Any], counters: CallCounters | None) -> Any:
    from lucky_transport_stubs.staged.channels import open_channel

    sides, count = _by_transport(factories, route, given), _counting(route, counters)
    return open_channel(route.target, *sides, count, given.get("options"))


def _open_staged_aio(
    factories: _Factories, route: Route, given: Mapping[str, Any], counters: CallCounters | None
) -> Any:
    from lucky_transport_stubs.staged.channels import open_aio_channel

    rest = {key: value for key, value in given.items() if key != "interceptors"}  # theirs is the place in front
    interceptors = given.get("interceptors") or ()
    sides, count = _by_transport(factories, route, rest), _counting(route, counters)
    return open_aio_channel(route.target, *sides, count, interceptors, given.get("options"))


def _by_transport(
    factories: _Factories, route: Route, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Factory]]:
    """Return the channels that answer, one where the route is none of stages, and what makes those for shadows."""
    if not route.endpoint:
        return {"grpc": factories.original(**given)}, {}
    kept = _kept(given)
    if not route.is_staged:
        return {"shm": factories.over_shm(route.endpoint, **kept)}, {}
    answering = {"grpc": factories.original(**given), "shm": factories.over_shm(route.endpoint, **kept)}
    shadows = {"grpc": lambda: factories.blocking(**given), "shm": lambda: _over_shm("channel", route.endpoint, **kept)}
    return answering, shadows


def _counting(route: Route, counters: CallCounters | None) -> Count | None:
    """Return what counts the calls over a transport of a method."""
    if counters is None:
        return None
    grpcs = route._replace(endpoint="", why="the stage of the method") if route.is_staged else route
    routes = {"grpc": grpcs, "shm": route}
    counter = functools.cache(lambda transport, method: _counter_of(routes[transport], counters, method))
    return lambda transport, method: counter(transport, method).add()


def _server_factory(original: Factory, over_shm: Factory, switch: Switch, counters: CallCounters | None) -> Factory:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make_server(*args: Any, **named: Any) -> Any:
        from lucky_transport_stubs.run import servers

        return servers.make_server(original, over_shm, signature.bind(*args, **named).arguments, switch, counters)

    _ours.add(make_server)
    return make_server


def _credentials_factory(original: Factory, argument: str, asked: str) -> Factory:
    """Return a factory of server credentials that notes what they ask of a client: always, or as an argument says."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make_credentials(*args: Any, **named: Any) -> Any:
        from lucky_transport_stubs.words.credentials import remember

        credentials = original(*args, **named)
        asks = asked and (not argument or signature.bind(*args, **named).arguments.get(argument))
        remember(credentials, f"it requires {asked}, and there are none in shared memory" if asks else "")
        return credentials

    _ours.add(make_credentials)
    return make_credentials


def _with_counts(channel: Any, route: Route, counters: CallCounters) -> Any:
    return counted(channel, lambda method: _counter_of(route, counters, _text(method)))


def _counter_of(route: Route, counters: CallCounters, method: str) -> CallCounter:
    return counters.counter(Calls(route.target, route.endpoint, route.why, method))


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


#: What makes a method of a stub, and what starts a call of one.
_MAKING = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_STARTING = ("__call__", "future", "with_call")


def counted(channel: Any, counter_of: Callable[[str], CallCounter]) -> Any:
    """Return the channel, of grpc or grpc.aio, with its calls counted from now on. counter_of: of a method by its path.

    A channel is counted by its class: it and its methods get classes that count a call when it is started, then make it
    as without counting. Methods of ours count by themselves, without a function for that. Nothing wraps the objects, so
    programs find in them all that grpc's have, and in their classes those of grpc.
    """
    channel._lucky_counter_of = counter_of
    channel.__class__ = _variant(type(channel), _MAKING, _making)
    return channel


def _making(kind: type, name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(kind, name))
    def make_counted(channel: Any, method: str, *args: Any, **named: Any) -> Any:
        made = getattr(kind, name)(channel, method, *args, **named)
        made._lucky_counter = channel._lucky_counter_of(method)
        if not hasattr(type(made), "_lucky_counter"):
            made.__class__ = _variant(type(made), _STARTING, _starting)
        return made

    return make_counted


def _starting(kind: type, name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(kind, name))
    def count_and_start(method: Any, *args: Any, **named: Any) -> Any:
        method._lucky_counter.add()
        return getattr(kind, name)(method, *args, **named)

    return count_and_start


@functools.cache
def _variant(kind: Any, names: tuple[str, ...], changed: Callable[[type, str], Callable[..., Any]]) -> type:
    """Return a class like `kind`, whose methods of these names are changed; to programs it is `kind`."""

    def reduce(thing: Any, protocol: Any) -> Any:
        _, (_, *rest), *others = kind.__reduce_ex__(thing, protocol)
        return object.__new__, (kind, *rest), *others  # pickle finds no other class under this name

    namespace = {name: changed(kind, name) for name in names if hasattr(kind, name)}
    as_kind = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind)(kind.__name__, (kind,), {**namespace, **as_kind, "__slots__": (), "__reduce_ex__": reduce})
