"""How an engine's runs go: set in the endpoint, or by the client with `set <name> <value>` for its next run.

    pipe://train?slots=4&stepping=independent&timeout_s=10

`SessionRules` names the options.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport_pipe.address import BACKEND

__all__ = ["SessionRules", "changed", "rules_of"]


@dataclass(frozen=True, slots=True)
class SessionRules:
    """slots: sessions at once. barrier: they step together, else each for itself. timeout_s: how long a session waits
    for its next command.
    """

    slots: int = 16
    barrier: bool = True
    timeout_s: float = 60.0


def _slots(text: str) -> dict[str, Any]:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is not a number of sessions from 1")
    return {"slots": int(text)}


def _stepping(text: str) -> dict[str, Any]:
    if text not in ("barrier", "independent"):
        raise ValueError(f"{text!r} is neither barrier nor independent")
    return {"barrier": text == "barrier"}


def _timeout(text: str) -> dict[str, Any]:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not a number of seconds above 0")
    return {"timeout_s": seconds}


_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "slots": _slots,
    "stepping": _stepping,
    "timeout_s": _timeout,
}


def changed(rules: SessionRules, name: str, value: str) -> SessionRules:
    """Return the rules with one changed. Raises ValueError for an unknown name or a value that does not fit."""
    reader = _READERS.get(name)
    if reader is None:
        raise ValueError(f"there is no setting {name!r}, only {', '.join(_READERS)}")
    return replace(rules, **reader(value))


def rules_of(endpoint: Endpoint, timeout_s: float) -> SessionRules:
    """Return the rules that an endpoint's options set, with `timeout_s` where they set none. Raises ConfigError."""
    rules = SessionRules(timeout_s=timeout_s)
    for name, value in endpoint.options:
        try:
            rules = changed(rules, name, value)
        except ValueError as error:
            raise ConfigError(
                f"endpoint {endpoint}: {error}", backend=BACKEND, hint="write for instance pipe://train?slots=16"
            ) from error
    return rules
