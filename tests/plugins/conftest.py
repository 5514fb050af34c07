"""What tests of several gRPC services share."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def refused() -> Callable[..., Any]:
    """Make a call that must end with a status, and return that: an object with `code()` and `details()`."""
    import grpc

    def call(function: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        with pytest.raises(grpc.RpcError) as caught:
            function(*arguments, **fields)
        return caught.value

    return call
