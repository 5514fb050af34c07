"""What a switched process and its launcher tell the user."""

from __future__ import annotations

import os
import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Write a line to the process's own stderr, whatever the program has put into sys.stderr."""
    if sys.__stderr__ is not None:
        sys.__stderr__.write(f"lucky-transport: pid {os.getpid()}: {text}\n")
        sys.__stderr__.flush()
