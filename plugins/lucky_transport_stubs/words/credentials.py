"""Credentials of channels, of calls and of ports, read from the objects that grpc makes of them.

A connection through shared memory is local and joins processes of one user: what gRPC's local credentials prove. TLS
credentials are taken for the same, and no certificate is asked for. Credentials of calls are metadata, sent as gRPC
sends them over a local channel: plugins run on threads that are kept, once the channel is connected; an access token is
known without any.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, StatusError, Unimplemented
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.uninterrupted import uninterrupted
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_stubs.grpc_inside import AccessToken, compiled
from lucky_transport_stubs.words.metadata import InvalidMetadata, outgoing
from lucky_transport_stubs.words.options import Options, authority
from lucky_transport_stubs.words.status import LATE, Code, error_of

_log = logging.getLogger("lucky_transport")

#: What grpc makes of a plugin: called with the service's URL, the method's name, and what takes (metadata, code, text).
Plugin = Callable[[str, str, Callable[[Any, int, Any], None]], None]
#: Is given the metadata of a call's credentials, or the error that ends the call; once, on any thread.
Done = Callable[[Metadata | StatusError], None]

#: How long a thread that waits for a plugin takes to see that the call is not wanted any more.
_SLICE_S = 0.05
_NO_SECURITY = "Established channel does not have a sufficient security level to transfer call credential."


class Fetch(NamedTuple):
    """The credentials of one call. plugins: in their order, for one whose answer never changes that answer.

    url, method: what plugins are told. is_secure: whether a call over this channel may have credentials.
    """

    plugins: tuple[Plugin | Metadata, ...]
    url: str
    method: str
    is_secure: bool

    @property
    def fixed(self) -> Metadata | None:
        """The metadata where no plugin has to be asked, else None."""
        if not self.is_secure or any(callable(one) for one in self.plugins):
            return None
        return tuple(entry for one in self.plugins for entry in one)  # type: ignore[union-attr]

    def __call__(self, done: Done) -> None:
        """Give `done` the metadata; returns before plugins have been asked."""
        if self.is_secure:
            _fetch(self.plugins, self.url, self.method, done)
        else:
            done(error_of(Code.UNAUTHENTICATED, _NO_SECURITY))

    def wait(self, deadline: Deadline | None, is_wanted: Callable[[], bool]) -> Metadata | None:
        """Return the metadata; waits while they are wanted, and returns None then. Raises StatusError."""
        if (fixed := self.fixed) is not None:
            return fixed
        answer: queue.SimpleQueue[Metadata | StatusError] = queue.SimpleQueue()
        self(answer.put)
        while is_wanted():
            left_s = _SLICE_S if deadline is None else deadline.remaining_s
            with contextlib.suppress(queue.Empty):
                found = answer.get(timeout=min(left_s, _SLICE_S))
                if isinstance(found, StatusError):
                    raise found
                return found
            if deadline is not None and deadline.expired:
                raise error_of(LATE.code, LATE.details)
        return None


class ChannelCredentials(NamedTuple):
    """What the credentials of a channel come to here.

    is_secure: calls may have credentials. scheme, authority: of the services' URLs. plugins: called for each call.
    """

    is_secure: bool = False
    scheme: str = ""
    authority: str = ""
    plugins: tuple[Plugin | Metadata, ...] = ()

    def fetch(self, credentials: Any, path: str) -> Fetch | None:
        """Return what a call of this path with these credentials fetches; None where there are none.

        Raises AttributeError and TypeError, as grpc does, for what are no credentials of a call.
        """
        plugins = self.plugins if credentials is None else (*self.plugins, *_plugins(credentials._credentials))
        if not plugins:
            return None
        service, _, method = path.rpartition("/")
        if not service:  # as gRPC has it, a path of one part is no method's
            service, method = path if path.startswith("/") else "", ""
        host = self.authority.removesuffix(":443") if self.scheme else self.authority
        return Fetch(plugins, f"{self.scheme}://{host}{service}", method, self.is_secure)


#: What each of grpc's kinds of channel credentials comes to; the kinds that are absent authenticate a network's peer.
_BY_KIND = {
    compiled.InsecureChannelCredentials: ChannelCredentials(),
    compiled.LocalChannelCredentials: ChannelCredentials(is_secure=True),
    compiled.SSLChannelCredentials: ChannelCredentials(is_secure=True, scheme="https"),
}


def channel_credentials(credentials: Any, options: Options, host: str) -> ChannelCredentials:
    """Return what a channel's credentials come to, None being those of an insecure channel.

    host: the authority, unless an option says another. Raises AttributeError and TypeError, as grpc does, for what are
    none; ConfigError for those that authenticate a network's peer.
    """
    if credentials is None:
        return ChannelCredentials()
    return _read(credentials._credentials)._replace(authority=authority(options) or host)


def why_no_channel(credentials: Any) -> str:
    """Return why a channel with these credentials is not carried through shared memory, "" where it is."""
    try:
        channel_credentials(credentials, (), "")
    except ConfigError as error:
        return str(error)
    except (AttributeError, TypeError):  # grpc's own factory says so
        return ""
    return ""


def _read(core: Any) -> ChannelCredentials:
    if isinstance(core, compiled.CompositeChannelCredentials):
        found = _read(core._channel_credentials)
        return found._replace(plugins=(*found.plugins, *(p for one in core._call_credentialses for p in _plugins(one))))
    if isinstance(core, compiled.XDSChannelCredentials):  # those of a target that xDS does not resolve
        return _read(core._fallback_credentials)
    if not isinstance(core, compiled.ChannelCredentials):
        raise TypeError(f"Argument 'channel_credentials' has incorrect type (got {type(core).__name__})")
    if type(core) not in _BY_KIND:
        raise ConfigError(
            f"{type(core).__name__} authenticate a network's peer",
            hint="shared memory carries local and TLS credentials",
        )
    return _BY_KIND[type(core)]


def _plugins(core: Any) -> tuple[Plugin | Metadata, ...]:
    """Return the plugins of a call's credentials in their order, of access tokens what they answer."""
    if isinstance(core, compiled.MetadataPluginCallCredentials):
        plugin = core._metadata_plugin
        token: Any = getattr(plugin, "_metadata_plugin", None)
        answers: list[Metadata] = []
        if type(token) is AccessToken:
            with contextlib.suppress(StatusError):  # it is invalid, and the plugin says so
                token(None, lambda metadata, error: answers.append(outgoing(metadata)))
        return tuple(answers) or (plugin,)
    if isinstance(core, compiled.CompositeCallCredentials):
        return tuple(plugin for one in core._call_credentialses for plugin in _plugins(one))
    raise TypeError(f"Argument 'credentials' has incorrect type (got {type(core).__name__})")


def _fetch(
    plugins: tuple[Plugin | Metadata, ...],
    url: str,
    method: str,
    done: Done,
    before: Metadata = (),
) -> None:
    """Have one plugin after the other called; `done` gets the metadata of all, or the first error."""
    if not plugins:
        done(before)
        return
    first = plugins[0]

    def proceed(found: Metadata) -> None:
        _fetch(plugins[1:], url, method, done, (*before, *found))

    if not callable(first):
        proceed(first)
        return
    answer = _Answer(lambda found: done(found) if isinstance(found, StatusError) else proceed(found))
    context = getattr(first, "_stored_ctx", None)  # that of the thread that made the credentials
    call = partial(first, url, method, answer)
    run_on_kept_thread(partial(answer.guard, call if context is None else partial(context.copy().run, call)))


class _Answer:
    """What a plugin says, the first time it says something. It is called as grpc's core would be."""

    def __init__(self, then: Callable[[Metadata | StatusError], None]) -> None:
        self._then = [then]

    def __call__(self, metadata: Any, code: int, details: Any) -> None:
        if code:
            text = details.decode(errors="replace") if isinstance(details, bytes) else details
            self._end(_failed(f"Getting metadata from plugin failed with error: {text}"))
            return
        try:
            found = outgoing(metadata)
        except InvalidMetadata:
            self._end(_failed("Illegal metadata"))
        except StatusError as error:  # more than a header holds
            self._end(error)
        except (TypeError, ValueError) as error:  # no pairs of texts: over gRPC the call never ends
            self._end(_failed(f"Getting metadata from plugin failed with error: {error}"))
        else:
            self._end(found)

    def guard(self, task: Callable[[], None]) -> None:
        """Call the plugin; whatever it raises ends the call."""
        try:
            task()
        except BaseException as error:  # foreign code; what is an Exception grpc has caught
            self(None, 1, str(error) or type(error).__name__)

    def _end(self, found: Metadata | StatusError) -> None:
        then = None
        try:
            [then] = uninterrupted(self._then.pop, 0)
        except IndexError:  # it has said something before
            return
        finally:
            if then is not None:
                then(found)


def _failed(details: str) -> StatusError:
    return error_of(Code.UNAVAILABLE, details)


@dataclass(frozen=True, slots=True)
class PortSecurity:
    """What handlers are told of the connection that a call came through: `auth_context()` and the peer's identity."""

    auth_context: Mapping[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    identity_key: str | None = None

    @property
    def identities(self) -> list[bytes] | None:
        """What the connection says under its identity's key."""
        return None if self.identity_key is None else self.auth_context[self.identity_key]


#: Of a port without credentials, and of one with any: in the words of gRPC, with its local credentials.
INSECURE = PortSecurity({"transport_security_type": [b"insecure"], "security_level": [b"TSI_SECURITY_NONE"]})
LOCAL = PortSecurity(
    {"transport_security_type": [b"local"], "security_level": [b"TSI_PRIVACY_AND_INTEGRITY"]}, "transport_security_type"
)


def port_security(credentials: Any, address: str) -> PortSecurity:
    """Return what handlers of a port with these credentials are told.

    Raises AttributeError for what are none, RuntimeError for those that are known to need a network.
    """
    credentials._credentials  # noqa: B018 - AttributeError for what are none
    refusal = why_no_port(credentials)
    if refusal:
        raise Unimplemented(f"Failed to bind to address {address}: {refusal}", backend="shm")
    if refusal is None:
        _log.warning("%s lets in the processes of this user; its credentials ask nothing else of them", address)
    return LOCAL


#: grpc's server credentials say nothing of themselves: `remember` notes what they were made from.
_refusals: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def remember(credentials: Any, refusal: str) -> None:
    """Note why a port with these server credentials is not served through shared memory, "" where it is."""
    _refusals[credentials] = refusal


def why_no_port(credentials: Any) -> str | None:
    """Return what was noted of these server credentials, None where nothing was."""
    try:
        return _refusals.get(credentials)
    except TypeError:  # no credentials: grpc's own method says so
        return None
