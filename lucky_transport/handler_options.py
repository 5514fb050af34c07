"""Options that the author of a handler sets on the function itself.

    class Greeter(GreeterServicer):
        @lucky_transport.inline
        def SayHello(self, request, context):        # on the thread that reads: no change of threads, half the time
            return HelloReply(message="hello")

The server that runs the handler reads them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from lucky_transport.errors import ConfigError

_Function = TypeVar("_Function", bound=Callable[..., Any])
_INLINE = "__lucky_transport_inline__"


def inline(function: _Function) -> _Function:
    """Mark a handler of unary calls as fast and return it: it then runs on the thread that reads the requests.

    It must take less than 50 us and never wait: all clients of its server wait meanwhile. Raises ConfigError for a
    function that takes no attributes (one written in C).
    """
    try:
        setattr(_undecorated(function), _INLINE, True)
    except (AttributeError, TypeError) as error:
        raise ConfigError(f"{function!r} cannot be marked inline", hint="mark a function written in Python") from error
    return function


def is_inline(function: Callable[..., Any]) -> bool:
    """True when the function, or the one it was made of, is marked inline."""
    # A bound method has the attributes of its function.
    made_of = _undecorated(function) if isinstance(function, functools.partial) else function
    return getattr(made_of, _INLINE, False) is True


def _undecorated(function: Any) -> Any:
    """Return the function behind a bound method or a partial.

    The option lies on that function, so that it is found through bound methods, `functools.partial` and the results of
    `functools.wraps`.
    """
    while isinstance(function := getattr(function, "__func__", function), functools.partial):
        function = function.func
    return function
