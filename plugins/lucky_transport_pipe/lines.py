"""The lines of the protocol: how they are cut out of bytes, what each one says, and how it is written.

    client to engine, ended by LF                       engine to client, ended by CRLF
    run <experiment>                                    SUCCESS
    {"Json":"init"}  ... END                            <id>                started
    <id> {"Json":"command"}                             <id> {"Json":"state"}   wants a command
    set <name> <value>                                  <id> <float>        final score
    quit                                                END · QUIT
    Warning:<text>   Error:<text>                       Warning:<text>   Error:<text>

LF and CRLF both end a line, whichever peer wrote it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_pipe.address import BACKEND

FROM_CLIENT_END = "\n"
FROM_ENGINE_END = "\r\n"
#: Bytes of a line; a longer one is no message of an honest peer.
LONGEST_LINE = 16 << 20

_SCORE = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|nan|[+-]?inf(inity)?|[+-]?∞", re.IGNORECASE)
_WARNING, _ERROR = "Warning:", "Error:"


class MessageType(Enum):
    """What a line is."""

    RUN = "run"
    SET = "set"
    QUIT = "quit"
    END = "END"
    COMMAND = "a command"
    SUCCESS = "SUCCESS"
    STARTED = "a start notice"
    STATE = "a state"
    SCORE = "a score"
    GONE = "QUIT"
    WARNING = "a warning"
    ERROR = "an error"
    OTHER = "something else"


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """One line: what it is, the session it is about (-1: none), and its text (of a session's line: behind the id)."""

    type: MessageType
    text: str = ""
    session: int = -1


class LineCutter:
    """Cuts lines, which end with LF or CRLF, out of bytes."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are complete by now, without their ends; empty ones are left out.

        Raises RemoteProtocolError for what is no UTF-8 and for a line that is too long.
        """
        *lines, self._rest = (self._rest + data).split(b"\n") if self._rest else data.split(b"\n")
        if len(self._rest) > self._longest:
            raise RemoteProtocolError(f"the peer sent a line of more than {self._longest} bytes", backend=BACKEND)
        try:
            return [text for line in lines if (text := line.decode().strip())]
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"the peer sent a line that is no UTF-8: {error}", backend=BACKEND) from error


_COMMON = {"END": ParsedLine(MessageType.END), "quit": ParsedLine(MessageType.QUIT)}
_FROM_ENGINE = {
    "END": ParsedLine(MessageType.END),
    "SUCCESS": ParsedLine(MessageType.SUCCESS),
    "QUIT": ParsedLine(MessageType.GONE),
}


def parse_from_client(line: str) -> ParsedLine:
    """Parse a client's line; init data and unknown lines are OTHER."""
    if (fixed := _COMMON.get(line)) is not None:
        return fixed
    head, _, rest = line.partition(" ")
    if head.isdecimal() and rest:
        return ParsedLine(MessageType.COMMAND, rest.strip(), int(head))
    if head in ("run", "set"):
        return ParsedLine(MessageType(head), rest.strip())
    return _complaint(line)


def parse_from_engine(line: str) -> ParsedLine:
    """Parse an engine's line."""
    head, _, rest = line.partition(" ")
    if head.isdecimal():
        rest = rest.strip()
        if not rest:
            return ParsedLine(MessageType.STARTED, "", int(head))
        is_score = rest[0] != "{" and _SCORE.fullmatch(rest) is not None
        return ParsedLine(MessageType.SCORE if is_score else MessageType.STATE, rest, int(head))
    return _FROM_ENGINE.get(line) or _complaint(line)


def _complaint(line: str) -> ParsedLine:
    for start, kind in ((_WARNING, MessageType.WARNING), (_ERROR, MessageType.ERROR)):
        if line.startswith(start):
            return ParsedLine(kind, line.removeprefix(start).strip())
    return ParsedLine(MessageType.OTHER, line)


def warning_line(text: str) -> str:
    """Return the line of a warning, without its end."""
    return f"{_WARNING} {_on_one_line(text)}"


def error_line(text: str) -> str:
    """Return the line of an error, without its end."""
    return f"{_ERROR} {_on_one_line(text)}"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def parse_score(text: str) -> float:
    """Return the number of a score's text; a peer in another culture writes a decimal comma, or ∞."""
    if "∞" in text:
        return -math.inf if text.startswith("-") else math.inf
    return float(text.replace(",", "."))


def score_text(score: float) -> str:
    """Return a score as every reader of the protocol parses it: "12.5", "NaN", "Infinity", "-Infinity"."""
    if math.isfinite(score):
        return repr(float(score))
    return "NaN" if math.isnan(score) else "Infinity" if score > 0 else "-Infinity"
