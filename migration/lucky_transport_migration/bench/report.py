"""Writes a report: one HTML page and, beside it, its JSON and its Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError

__all__ = ["write_bench", "write_files"]

Result = Mapping[str, Any]


def write_bench(result: Result, directory: Path, name: str = "bench") -> Path:
    """Write `bench.html`, `bench.json` and `report.md` into `directory` and return the page's path.

    The first two are called after `name`. Raises ConfigError when the directory cannot be written.
    """
    from lucky_transport_migration.bench.markdown import bench_markdown
    from lucky_transport_migration.bench.page import bench_page

    write_files(directory, {})  # before anything is drawn, which takes seconds
    texts = {
        f"{name}.html": bench_page(result, f"{name}.json"),
        f"{name}.json": json.dumps(result, indent=1, allow_nan=False) + "\n",
        "report.md": bench_markdown(result),
    }
    write_files(directory, texts)
    return directory / f"{name}.html"


def write_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a report, by name; makes the directory. Raises ConfigError when it cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"report directory {str(directory)!r}: {error.strerror}", hint="pass a writable one with --report"
        ) from error
