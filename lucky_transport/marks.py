"""What the author of a handler says about it, for whoever runs it.

    class Greeter(GreeterServicer):
        @lucky_transport.inline
        def SayHello(self, request, context):        # on the thread that reads: no change of threads, half the time
            return HelloReply(message="hello")

Rule 1: a mark lies on the plain function, so that it is seen through bound methods, `functools.partial` and whatever
        `functools.wraps` made; only who looks for it acts on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from lucky_transport.errors import ConfigError

__all__ = ["inline", "is_inline"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_INLINE = "__lucky_transport_inline__"


def inline(function: _Function) -> _Function:
    """Mark a handler of unary calls as fast and return it: it then runs on the thread that reads the requests.

    It must take less than 50 us and never wait for anything: all clients of its server wait meanwhile. Raises
    ConfigError for what cannot carry a mark (a function written in C).
    """
    try:
        setattr(_plain(function), _INLINE, True)
    except (AttributeError, TypeError) as error:
        raise ConfigError(f"{function!r} cannot be marked inline", hint="mark a function written in Python") from error
    return function


def is_inline(function: Callable[..., Any]) -> bool:
    """True when the function, or the one it was made of, is marked inline."""
    return getattr(_plain(function), _INLINE, False) is True


def _plain(function: Any) -> Any:
    """Return the function behind a bound method or a partial."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        else:
            return function
