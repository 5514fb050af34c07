"""Pytest's rewritten assertions, made once by all workers together.

Rewriting takes two thirds of the collection in a fresh clone, and each worker of pytest-xdist would do all of it, at
the same time as the others. So each first does its share, and finds the rest in the cache.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite


def rewrite_share(config: pytest.Config) -> None:
    """Rewrite every n-th file that `config` will collect; does nothing outside of n workers, or without a cache.

    What it leaves out, pytest itself rewrites when it imports the file.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    internals: Any = rewrite  # private, and so perhaps another one day: then the files are only collected more slowly
    if worker is None or sys.dont_write_bytecode or not hasattr(internals, "_rewrite_test"):
        return
    count, number = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    for path in _files(config)[number::count]:
        folder: Path = internals.get_cache_dir(path)
        cached = folder / (path.stem + internals.PYC_TAIL)
        if not cached.exists():
            folder.mkdir(exist_ok=True)
            status, code = internals._rewrite_test(path, config)
            internals._write_pyc(config.stash[internals.assertstate_key], code, status, cached)


def _files(config: pytest.Config) -> list[Path]:
    """Return the files of tests under the arguments, in an order that all workers share."""
    found: set[Path] = set()
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.partition("::")[0])
        found |= set(path.rglob("test_*.py")) | set(path.rglob("conftest.py")) if path.is_dir() else {path}
    return sorted(found)
