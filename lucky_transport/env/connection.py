"""What an env holds and has to end: its transport, and the engine process that was started for it."""

from __future__ import annotations

import os
from typing import Protocol

from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout
from lucky_transport.transport import Transport

#: What the hint of a transport's timeout names; an env has no such method.
_OF_TRANSPORTS = "recv() again"


class Owner(Protocol):
    """Something that ends with the env, for instance the engine's process."""

    def stop(self) -> object:
        """End it; idempotent."""
        ...


class EnvConnection:
    """A transport and the engine process it was started with, if any; `end` closes both.

    It ends once: at `close`, at garbage collection or when the program ends.
    """

    def __init__(self, transport: Transport, owner: Owner | None) -> None:
        self._transport = transport
        self._owner = owner
        self._pid = os.getpid()

    @property
    def is_own(self) -> bool:
        """False in a forked child: transport and owner belong to its parent."""
        return os.getpid() == self._pid

    def check_process(self) -> None:
        """Raise ClosedError in a forked child."""
        if not self.is_own:
            raise ClosedError(
                "this env belongs to the parent process",
                backend=self._transport.name,
                hint="make another env after fork()",
            )

    def end(self) -> None:
        """Close the transport, then stop the owner even if closing failed."""
        if not self.is_own:
            return
        try:
            self._transport.close()
        finally:
            if self._owner is not None:
                self._owner.stop()

    def explain(self, error: BaseException) -> None:
        """Raise `error` anew where the env knows more of it than its transport; else return.

        A dead engine's exit report becomes part of the error. A timeout's hint names what an env has.
        """
        if isinstance(error, PeerDied) and (report := self._exit_report()):
            raise PeerDied(f"{error}\nthe engine process ended with {report}", backend=error.backend) from error
        if isinstance(error, PeerTimeout) and _OF_TRANSPORTS in error.hint:
            text, hint = str(error).removesuffix(f"; {error.hint}"), error.hint.replace(_OF_TRANSPORTS, "call reset()")
            raise PeerTimeout(text, backend=error.backend, hint=hint) from None

    def _exit_report(self) -> str:
        """Return how our own engine process ended and the last lines it printed; "" when it runs or is not ours."""
        exit_report = getattr(self._owner, "exit_report", None)
        return "" if exit_report is None else exit_report()
