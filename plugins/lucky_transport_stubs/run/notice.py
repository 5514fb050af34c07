"""What a switched process and its launcher tell the user.

A stream that is no terminal may be read by a program, so notices go there only where they are asked for.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from lucky_transport.config import load_launch
from lucky_transport.errors import printable


def say(text: str) -> None:
    """Tell the user a line about this process."""
    tell(printable(f"lucky-transport: pid {os.getpid()}: {text}") + "\n")


def tell(text: str, *, asked: bool = False) -> None:
    """Write to the process's own stderr, whatever the program has put into sys.stderr: a terminal, or `asked`.

    Where it takes nothing more, such as a terminal that has closed, the text is lost and the program goes on.
    """
    stream = sys.__stderr__
    if stream is not None and (asked or load_launch().report == "-" or stream.isatty()):
        with suppress(OSError):
            stream.write(text)
            stream.flush()
