"""Marks on handlers are seen wherever the handler ends up."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import lucky_transport
from lucky_transport.errors import ConfigError
from lucky_transport.handler_options import inline, is_inline


class Greeter:
    @inline
    def fast(self, request: Any, context: Any) -> Any:
        return request

    def slow(self, request: Any, context: Any) -> Any:
        return request


def test_a_marked_function_is_returned_as_it_is() -> None:
    def handler(request: Any, context: Any) -> Any:
        return request

    assert not is_inline(handler)
    assert inline(handler) is handler
    assert is_inline(handler)


def test_the_mark_is_seen_through_methods_partials_and_wrappers() -> None:
    greeter = Greeter()

    @functools.wraps(greeter.fast)
    def wrapper(request: Any, context: Any) -> Any:
        return greeter.fast(request, context)

    for found in (Greeter.fast, greeter.fast, functools.partial(greeter.fast, b""), wrapper):
        assert is_inline(found)
    assert not is_inline(greeter.slow)
    assert not is_inline(functools.partial(greeter.slow, b""))


def test_a_method_is_marked_on_its_function() -> None:
    class Other(Greeter):
        def late(self, request: Any, context: Any) -> Any:
            return request

    inline(Other().late)
    assert is_inline(Other().late)
    inline(functools.partial(Other().slow, b""))
    assert is_inline(Other.slow)


def test_what_cannot_carry_a_mark_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be marked inline"):
        inline(len)
    assert not is_inline(len)


def test_it_is_part_of_the_public_api() -> None:
    assert lucky_transport.inline is inline
