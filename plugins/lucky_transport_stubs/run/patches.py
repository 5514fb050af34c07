"""What a switched program finds changed: grpc's factories ask the switch first, luckyrobots answers.

A channel that stays on gRPC is made by the original factory with the caller's own arguments. A staged channel is made
of the channels that the factory and ours would have made, a recorded one of the one that its program would have.
Everything else of grpc that makes channels (stubs without a channel, the beta API) goes through these four by itself,
because it looks them up when it is called.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from lucky_transport.call_counts import CallCounter, CallCounters, Calls
from lucky_transport.errors import ConfigError
from lucky_transport_stubs.greenlets import why_no_threads
from lucky_transport_stubs.run.counts import counted
from lucky_transport_stubs.run.notice import say
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

#: Versions whose `health_check` uses the stub `_mujoco`, which is made when `client.mujoco` is first used:
#: luckyrobots never does, so `wait_for_server` waits its whole time and `Session.connect` fails, over gRPC too.
_AFFECTED = ("0.5.0",)

#: Factories of ours, by which a second patch of the same module is recognised.
_ours: set[Factory] = set()


def patch(grpc: ModuleType, switch: Switch, counters: CallCounters | None) -> None:
    """Make all channels and servers of grpc and grpc.aio ask `switch` from now on; `counters` count their calls.

    A factory that is ours already stays as it is (after importlib.reload(grpc), those of grpc.aio are).
    """
    blocking = {name: inspect.unwrap(getattr(grpc, name)) for name in ("insecure_channel", "secure_channel")}
    for module, over_shm, stage in ((grpc, _channel, _staged), (grpc.aio, _aio_channel, _staged_aio)):
        for name in blocking:
            original = getattr(module, name)
            if original not in _ours:
                makers = _Makers(original, over_shm, stage, blocking[name])
                setattr(module, name, _switched(makers, switch, counters))
    for module, name, over_shm in ((grpc, "server", _server), (grpc.aio, "server", _aio_server)):
        if getattr(module, name) not in _ours:
            setattr(module, name, _switched_server(getattr(module, name), over_shm, switch, counters))
    for name, (argument, asked) in _SERVER_CREDENTIALS.items():
        original = getattr(grpc, name, None)
        if original is not None and original not in _ours:
            setattr(grpc, name, _remembering(original, argument, asked))


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


class _Makers(NamedTuple):
    """What channels are made by in a factory's place.

    `original` is grpc's own, `blocking` grpc's for threads, of the same security; `over_shm` and `staged` are ours.
    """

    original: Factory
    over_shm: Factory
    staged: Factory
    blocking: Factory


def _channel(endpoint: str, **kept: Any) -> Any:
    from lucky_transport_stubs import channel

    return channel(endpoint, **kept)


def _aio_channel(endpoint: str, **kept: Any) -> Any:
    from lucky_transport_stubs import aio_channel

    return aio_channel(endpoint, **kept)


def _switched(makers: _Makers, switch: Switch, counters: CallCounters | None) -> Factory:
    signature = inspect.signature(makers.original)

    @functools.wraps(makers.original)
    def make_channel(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named).arguments
        patch_luckyrobots()
        if given.get("credentials", "") is None:
            return makers.original(*args, **named)  # which refuses it
        route = switch.route(_text(given["target"]), _why_not(given.get("credentials")))
        is_recorded = switch.records(route.target, why_no_threads()) and not _is_of_a_transport(given)
        if route.is_staged or is_recorded:
            return makers.staged(makers, route, given, counters)
        if route.endpoint:
            channel = makers.over_shm(route.endpoint, **_kept(given))
        else:
            channel = makers.original(*args, **named)
        return channel if counters is None else _counted(channel, route, counters)

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
        kept["options"] += (("grpc.default_authority", authority_of(target)),)
    return kept


def _why_not(credentials: Any) -> str:
    """Return why a channel with these credentials stays on gRPC in this process, "" where it need not."""
    refusal = why_no_threads()
    if refusal or credentials is None:
        return refusal
    from lucky_transport_stubs.words.credentials import why_no_channel

    return why_no_channel(credentials)


def _staged(makers: _Makers, route: Route, given: Mapping[str, Any], counters: CallCounters | None) -> Any:
    from lucky_transport_stubs.staged.channels import open_channel

    return open_channel(route.target, *_sides(makers, route, given), _count(route, counters), given.get("options"))


def _staged_aio(makers: _Makers, route: Route, given: Mapping[str, Any], counters: CallCounters | None) -> Any:
    from lucky_transport_stubs.staged.channels import open_aio_channel

    rest = {key: value for key, value in given.items() if key != "interceptors"}  # theirs is the place in front
    interceptors = given.get("interceptors") or ()
    sides, count = _sides(makers, route, rest), _count(route, counters)
    return open_aio_channel(route.target, *sides, count, interceptors, given.get("options"))


def _sides(makers: _Makers, route: Route, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Factory]]:
    """Return the channels that answer, one where the route is none of stages, and what makes those for shadows."""
    if not route.endpoint:
        return {"grpc": makers.original(**given)}, {}
    kept = _kept(given)
    if not route.is_staged:
        return {"shm": makers.over_shm(route.endpoint, **kept)}, {}
    answering = {"grpc": makers.original(**given), "shm": makers.over_shm(route.endpoint, **kept)}
    shadows = {"grpc": lambda: makers.blocking(**given), "shm": lambda: _channel(route.endpoint, **kept)}
    return answering, shadows


def _count(route: Route, counters: CallCounters | None) -> Count | None:
    """Return what counts the calls over a transport of a method."""
    if counters is None:
        return None
    grpcs = route._replace(endpoint="", why="the stage of the method") if route.is_staged else route
    routes = {"grpc": grpcs, "shm": route}
    counter = functools.cache(lambda transport, method: _counter(routes[transport], counters, method))
    return lambda transport, method: counter(transport, method).add()


def _server(**given: Any) -> Any:
    from lucky_transport_stubs import server

    return server(**given)


def _aio_server(**given: Any) -> Any:
    from lucky_transport_stubs import aio_server

    return aio_server(**given)


def _switched_server(original: Factory, over_shm: Factory, switch: Switch, counters: CallCounters | None) -> Factory:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make_server(*args: Any, **named: Any) -> Any:
        from lucky_transport_stubs.run import servers

        return servers.make_server(original, over_shm, signature.bind(*args, **named).arguments, switch, counters)

    _ours.add(make_server)
    return make_server


def _remembering(original: Factory, argument: str, asked: str) -> Factory:
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


def _counted(channel: Any, route: Route, counters: CallCounters) -> Any:
    return counted(channel, lambda method: _counter(route, counters, _text(method)))


def _counter(route: Route, counters: CallCounters, method: str) -> CallCounter:
    return counters.counter(Calls(route.target, route.endpoint, route.why, method))


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def patch_luckyrobots() -> None:
    """Make health checks of luckyrobots clients succeed when the engine answers; asked whenever a channel is made.

    A health check needs a channel, so luckyrobots is patched in time, imported before or after grpc.
    """
    client = getattr(sys.modules.get("luckyrobots.client"), "LuckyEngineClient", None)
    if client is None or hasattr(client.health_check, "__wrapped__") or _version() not in _AFFECTED:
        return
    client.health_check = _cured(client.health_check)
    say(f"luckyrobots {_version()}: its health check is cured (it used client.mujoco before it was made)")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # many modules, for programs with luckyrobots alone

    try:
        return version("luckyrobots")
    except PackageNotFoundError:  # a checkout on PYTHONPATH: its version is unknown
        return ""


def _cured(health_check: Any) -> Any:
    @functools.wraps(health_check)
    def check(self: Any, timeout: float | None = None) -> bool:
        return self.is_connected() and self.mujoco is not None and health_check(self, timeout)

    return check
