"""Rows of [stages.methods] written into the file of stages, everything else in it left as it is.

Comments, order and other tables stay; the file is replaced as a whole, so that a reader never sees half of it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lucky_transport.errors import ConfigError
from lucky_transport_migration.stages.stage import Placement

__all__ = ["write_rows"]


def write_rows(path: Path, rows: Mapping[str, Placement], drop: Iterable[str] = ()) -> None:
    """Give each key of `rows` its placement and remove the rows `drop`; a file that is not there is made.

    Raises ConfigError for a file that is no TOML, OSError when it cannot be written.
    """
    path = path.resolve()
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", hint="mend the file") from error
    stages = document.setdefault("stages", tomlkit.table())
    methods = stages.setdefault("methods", tomlkit.table())
    for key in drop:
        methods.pop(key, None)
    for key, placement in rows.items():
        methods[key] = str(placement)
    _replace(path, tomlkit.dumps(document))


def _replace(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
