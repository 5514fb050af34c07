"""The unary method of a stub whose channel's service config has something to say of it.

It stands beside `UnaryUnary`, so that a call without a service config pays nothing for it.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.rpc.unary import UnaryResult
from lucky_transport_stubs.client.call_state import credentials_metadata
from lucky_transport_stubs.client.methods import Given, UnaryUnary, failed_call, until
from lucky_transport_stubs.words.metadata import check_size, outgoing
from lucky_transport_stubs.words.status import LATE, OK

__all__ = ["ConfiguredUnaryUnary"]


class ConfiguredUnaryUnary(UnaryUnary):
    """A blocking call makes its attempts on its caller's thread."""

    def _exchange(
        self,
        request: Any,
        timeout: float | None,
        metadata: Given,
        credentials: Any,
        wait_for_ready: bool | None,
        compression: Any,
    ) -> tuple[Any, UnaryResult]:
        config = self._config
        assert config is not None
        timeout, wait_for_ready = config.timeout(timeout), config.waits_for_ready(wait_for_ready)
        retries = config.retries()
        if retries is None:
            return super()._exchange(request, timeout, metadata, credentials, wait_for_ready, compression)
        fetch = self._fetch(credentials)
        try:
            payload = self._messages.payload(request)
            self._messages.check_length(payload)
            entries = outgoing(metadata, self._user_agent, self._compression.entries(compression))
            deadline = until(timeout)
        except TransportError as error:
            raise failed_call(self._link.status_of(error), None) from None
        while True:
            answer, status = None, OK
            try:
                calls = self._link.current() or self._link.reach(deadline, wait_for_ready=bool(wait_for_ready))
                more = credentials_metadata(fetch, self._link, deadline)
                retries.begins()
                sent = (*retries.metadata(entries), *more)
                if more:
                    check_size(sent)
                answer = calls.exchange(self._path, payload, deadline, sent)
                if answer.headers or answer.trailing:
                    check_size(answer.headers, answer.trailing)
                if answer.error is None:
                    response = self._messages.response(answer.payload)
                    retries.after(OK)
                    return response, answer
                status = self._link.status_of(answer.error)
            except TransportError as error:
                status = self._link.status_of(error)
            if answer is not None and (answer.has_started or answer.error is None):
                retries.commit()
            delay_s = None if self._link.is_closed else retries.after(status)
            if delay_s is None:
                raise failed_call(status, answer) from None
            if not self._link.pause(delay_s, deadline):
                raise failed_call(LATE, None)
