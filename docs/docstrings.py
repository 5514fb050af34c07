"""Shows the docstrings as they are meant: lines such as `name: text` become a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

#: `num_envs: how many`, `seed, options: of the engine`, and the deeper lines that belong to it.
_ITEM = re.compile(r"^(\w+(?:, \w+)*): (.+(?:\n +\S.*)*)", re.MULTILINE)


class ListedArguments(Extension):
    """A griffe extension that rewrites the docstring of every object."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _listed(obj.docstring.value)


def _listed(text: str) -> str:
    return _ITEM.sub(_list_item, text)


def _list_item(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return f"- {names}: " + re.sub(r"\n +", " ", found[2])
