"""Writes a report: one HTML page and, beside it, its JSON and its Markdown."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError

__all__ = ["named", "write_bench"]

Result = Mapping[str, Any]


def write_bench(result: Result, directory: Path, name: str = "bench") -> Path:
    """Write `bench.html`, `bench.json` and `report.md` into `directory` and return the page's path.

    The first two are called after `name`. Raises ConfigError when the directory cannot be written.
    """
    from lucky_transport_migration.bench.markdown import bench_markdown
    from lucky_transport_migration.bench.page import bench_page

    with named(directory):  # before anything is drawn, which takes seconds
        directory.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{name}.html": bench_page(result, f"{name}.json"),
        f"{name}.json": json.dumps(result, indent=1, allow_nan=False) + "\n",
        "report.md": bench_markdown(result),
    }
    with named(directory):
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="utf-8")
    return directory / f"{name}.html"


@contextmanager
def named(directory: Path) -> Generator[None]:
    """Turn what the system refuses into a ConfigError that names the directory."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"report directory {str(directory)!r}: {error.strerror}", hint="pass a writable one with --report"
        ) from error
