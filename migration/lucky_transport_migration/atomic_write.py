"""A file's new content in one step: a reader sees the old file or the new one, never a part of either."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Make `content` the whole content of `path`, which keeps its permissions; a new file is readable to everybody.

    Raises OSError; then `path` is as it was and nothing else is left behind.
    """
    path = path.resolve()  # a link stays a link
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
