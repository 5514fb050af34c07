"""OpenEnv's column beside the one table of statuses, `lucky_transport.errors`: HTTP's status, and the text that agents
read.

OpenEnv's WebSocket has one code for whatever a step may raise, EXECUTION_ERROR, and MCP has none at all. So the text
begins with the name of the status, "RESOURCE_EXHAUSTED: ...", wherever an error goes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from lucky_transport.errors import Status, TransportError, is_interruption, status_of, to_wire_error

#: As gRPC's own documentation maps its statuses to HTTP.
HTTP_STATUSES: Mapping[Status, int] = {
    Status.OK: 200,
    Status.CANCELLED: 499,
    Status.UNKNOWN: 500,
    Status.INVALID_ARGUMENT: 400,
    Status.DEADLINE_EXCEEDED: 504,
    Status.NOT_FOUND: 404,
    Status.ALREADY_EXISTS: 409,
    Status.PERMISSION_DENIED: 403,
    Status.RESOURCE_EXHAUSTED: 429,
    Status.FAILED_PRECONDITION: 400,
    Status.ABORTED: 409,
    Status.OUT_OF_RANGE: 400,
    Status.UNIMPLEMENTED: 501,
    Status.INTERNAL: 500,
    Status.UNAVAILABLE: 503,
    Status.DATA_LOSS: 500,
    Status.UNAUTHENTICATED: 401,
}


class EpisodeError(Exception):
    """What a client of OpenEnv gets to read: the status's name and the text of our error.

    status: its gRPC status. http_status: the same for HTTP, 0 = as the table has it.
    """

    def __init__(self, status: Status, text: str, http_status: int = 0) -> None:
        super().__init__(f"{status.name}: {text}")
        self.status = status
        self.http_status = http_status or HTTP_STATUSES[status]


@contextmanager
def refused(engine: str, what: str) -> Generator[None]:
    """Raise whatever is raised inside as an EpisodeError; ValueError and TypeError mean a wrong argument."""
    try:
        yield
    except EpisodeError:
        raise
    except TransportError as error:
        raise EpisodeError(status_of(error), str(error)) from error
    except (ValueError, TypeError) as error:
        raise EpisodeError(Status.INVALID_ARGUMENT, str(error)) from error
    except BaseException as error:  # an engine is foreign code and may raise anything
        if is_interruption(error):
            raise
        known = to_wire_error(engine, what, error)
        raise EpisodeError(status_of(known), str(known)) from error
