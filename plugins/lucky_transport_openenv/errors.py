"""OpenEnv's column beside the one table of statuses, `lucky_transport.errors`: the text that agents read.

OpenEnv's WebSocket has one code for whatever a step may raise, EXECUTION_ERROR, and MCP has none at all. So the text
begins with the name of the status, "RESOURCE_EXHAUSTED: ...", wherever an error goes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from lucky_transport.errors import Status, TransportError, is_interruption, status_of, to_wire_error


class EpisodeError(Exception):
    """What a client of OpenEnv gets to read: the status's name and the text of our error.

    status: its gRPC status.
    """

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(f"{status.name}: {text}")
        self.status = status


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
