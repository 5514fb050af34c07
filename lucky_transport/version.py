"""The version of this package, how it was installed, and what is said of an engine that runs another one."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

# Only what is asked for is imported: `importlib.metadata` brings some forty modules.


@cache
def version() -> str:
    """Return the version of this package, "" where it is imported without being installed."""
    from importlib import metadata

    try:
        return metadata.version("lucky-transport")
    except metadata.PackageNotFoundError:
        return ""


def install_command(extra: str) -> str:
    """Return what installs an extra: from the package index, or from the folder that this was installed from."""
    import json
    import shlex
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    # a clone in the working folder has an egg-info beside it, which does not say
    written = (one.read_text("direct_url.json") for one in metadata.distributions(name="lucky-transport"))
    try:
        source: dict[str, Any] = json.loads(next(filter(None, written), "{}"))
    except ValueError:
        source = {}
    folder = source.get("dir_info")
    where = "lucky-transport" if folder is None else unquote(urlsplit(str(source["url"])).path)
    editable = "-e " if folder and folder.get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{where}[{extra}]')}"


@lru_cache(64)
def compare_version(engine: str, theirs: str) -> None:
    """Log, once, that an engine runs another version; what both speak is for the transports to find out."""
    if theirs != version() and version():
        import logging

        logging.getLogger("lucky_transport").warning(
            "engine %r runs lucky_transport %.32r, this process %s; what only one of them has is not there",
            engine,
            theirs,
            version(),
        )
