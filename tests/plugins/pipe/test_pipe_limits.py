"""A client that may open no more files says so when it offers a pipe, and can offer it afterwards."""

from __future__ import annotations

import pytest

from lucky_transport.errors import TransportError
from lucky_transport.process import unique_name
from lucky_transport_pipe.listener import PipeListener
from tests.plugins.failing_starts import no_descriptors


def test_the_limit_is_named_and_nothing_is_left() -> None:
    name = unique_name()
    for allowed in range(2):
        with no_descriptors(allowed), pytest.raises(TransportError, match=r"too many open files.*ulimit -n"):
            PipeListener(name)
        PipeListener(name).close()
