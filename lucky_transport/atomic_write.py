"""A file's new content in one step: a reader sees the old file or the new one, never a part of either."""

from __future__ import annotations

import glob
import os
import stat
import tempfile
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from lucky_transport.found_file import open_found

#: How the name of a file ends that is not whole yet. Its writer holds a lock on it.
_SUFFIX = ".lucky-new"


def write_atomically(path: Path, content: bytes) -> None:
    """Make `content` the whole content of `path`, which keeps its permissions; a new file is readable to everybody.

    What killed writers of `path` left is removed. Raises OSError; then `path` is as it was and nothing else is left
    behind.
    """
    path = path.resolve()  # a link stays a link
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_SUFFIX}"):
        with suppress(OSError), open_found(left) as file:
            flock(file, LOCK_EX | LOCK_NB)
            if os.fstat(file.fileno()).st_size:  # an empty one may be about to be locked
                left.unlink()
    descriptor, name = tempfile.mkstemp(_SUFFIX, f".{path.name}.", path.parent)
    try:
        with open(descriptor, "wb") as file:
            with suppress(OSError):  # a file system without locks: there nothing is removed
                flock(file, LOCK_EX)
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
