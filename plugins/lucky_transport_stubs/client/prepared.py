"""What a channel's options and arguments say of its calls: read once for the channel, then applied to each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_stubs.words.credentials import Fetch, channel_credentials
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import outgoing
from lucky_transport_stubs.words.options import (
    Options,
    log_ignored,
    max_receive_bytes,
    max_send_bytes,
    service_config,
    target_of,
)

if TYPE_CHECKING:
    from lucky_transport_stubs.words.retries import Retries
    from lucky_transport_stubs.words.service_config import ServiceConfig


@dataclass(slots=True)
class PreparedCall:
    """A call as its caller and its channel want it.

    timeout_s: None for no deadline. is_patient: it waits for an engine. fetch: gets the metadata of its credentials.
    retries: its attempts, None for one that has only one; buffer_bytes: of requests kept for another attempt.
    entries: the metadata that travel, without those of the credentials.
    """

    path: str
    timeout_s: float | None
    is_patient: bool
    fetch: Fetch | None
    retries: Retries | None = None
    buffer_bytes: int = 0
    entries: Metadata = ()


class CallSettings:
    """What holds for all calls of one channel. user_agent: sent with each call unless empty. target: where the program
    believes the channel leads.

    Raises what `channel_credentials` raises; TypeError, ValueError for what are no options.
    """

    def __init__(self, endpoint: Endpoint, options: Options, credentials: Any, user_agent: str) -> None:
        self.credentials = channel_credentials(credentials, options, endpoint.address)
        self.max_receive_bytes = max_receive_bytes(options)
        self.target = target_of(options, endpoint)
        self.user_agent = user_agent
        self._max_send_bytes = max_send_bytes(options)
        self._service_config = _loaded_config(options, endpoint)
        #: What travels with a call that has no metadata of its own.
        self.plain_entries = self.entries(())
        self.refusal = None if self._service_config is None else self._service_config.refusal
        log_ignored(options)

    def messages(
        self, serialize: Callable[[Any], Any] | None = None, deserialize: Callable[[bytes], Any] | None = None
    ) -> Messages:
        """Return what makes bytes of a method's messages, within the channel's limits."""
        return Messages(serialize, deserialize, self._max_send_bytes, self.max_receive_bytes)

    def has_config(self, path: str) -> bool:
        """True when the service config says something of the method."""
        return self._service_config is not None and self._service_config.method(path) is not None

    def prepare(
        self, path: str, timeout_s: float | None, wait_for_ready: bool | None, credentials: Any
    ) -> PreparedCall:
        """Return a call of this path. Raises AttributeError, TypeError for no credentials."""
        fetch = self.credentials.fetch(credentials, path)
        config = None if self._service_config is None else self._service_config.method(path)
        if config is None:
            return PreparedCall(path, timeout_s, bool(wait_for_ready), fetch)
        timeout_s, is_patient = config.timeout(timeout_s), bool(config.waits_for_ready(wait_for_ready))
        return PreparedCall(path, timeout_s, is_patient, fetch, config.retries(), config.buffer_bytes)

    def entries(self, metadata: Iterable[Any] | None) -> Metadata:
        """Return a caller's metadata as they travel; raises the errors of `outgoing`."""
        return outgoing(metadata, self.user_agent)


def _loaded_config(options: Options, endpoint: Endpoint) -> ServiceConfig | None:
    """Return the service config of the options, which most channels have not: its modules come with the first one."""
    text = service_config(options)
    if text is None:
        return None
    from lucky_transport_stubs.words.service_config import load_service_config

    return load_service_config(text, options, endpoint)
