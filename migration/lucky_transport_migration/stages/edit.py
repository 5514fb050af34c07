"""Rows of [stages.methods] written into the file of stages, everything else in it left as it is.

Comments, order and other tables stay; the file is replaced as a whole, so that a reader never sees half of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lucky_transport.errors import ConfigError
from lucky_transport_migration.atomic_write import write_atomically
from lucky_transport_migration.stages.stage import Placement

__all__ = ["write_rows"]


def write_rows(path: Path, rows: Mapping[str, Placement], drop: Iterable[str] = ()) -> None:
    """Give each key of `rows` its placement and remove the rows `drop`; a file that is not there is made.

    Raises ConfigError for a file that is no TOML, OSError when it cannot be written.
    """
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
    write_atomically(path, tomlkit.dumps(document).encode())
