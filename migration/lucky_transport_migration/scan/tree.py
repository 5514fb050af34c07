"""The files of a code base, each once.

Links to folders are not followed, so that a loop of links is no loop here; a link to a file of the same code base is
not given, for the file is. What others wrote and what tools made is no part of a code base: version control, virtual
environments, caches.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["files_of", "name_in"]

_FOREIGN = {
    ".eggs",
    ".git",
    ".hg",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    "__pycache__",
    "node_modules",
    "site-packages",
}


def files_of(root: Path, on_error: Callable[[OSError], object] = lambda _: None) -> Iterator[Path]:
    """Yield every regular file below `root` (or `root` itself), folder by folder, in the order of their names.

    `on_error` is told of a folder that cannot be listed. What was asked for by name is read wherever it lies.
    """
    if not root.is_dir():
        if _is_file(root):
            yield root
        return
    here = root.resolve()
    for folder, folders, names in os.walk(root, onerror=on_error):
        folders[:] = sorted(name for name in folders if not _is_foreign(Path(folder, name)))
        for path in (Path(folder, name) for name in sorted(names)):
            if _is_file(path) and not (path.is_symlink() and path.resolve().is_relative_to(here)):
                yield path


def name_in(root: Path, path: Path) -> str:
    """Return how a file below `root` is called in a report."""
    return path.name if path == root else path.relative_to(root).as_posix()


def _is_foreign(folder: Path) -> bool:
    return folder.name in _FOREIGN or folder.name.endswith(".egg-info") or (folder / "pyvenv.cfg").is_file()


def _is_file(path: Path) -> bool:
    """True for a regular file; not for a pipe, which would be waited for, nor for a broken link."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
