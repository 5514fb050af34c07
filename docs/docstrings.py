"""Shows the docstrings as they are meant: lines such as `name: text` become a list, and overloads become methods."""

from __future__ import annotations

import re
from typing import Any

from griffe import Class, Extension, Object

#: `num_envs: how many`, `seed, options: of the engine`, and the deeper lines that belong to it.
_ITEM = re.compile(r"^(\w+(?:, \w+)*): (.+(?:\n +\S.*)*)", re.MULTILINE)


class ListedArguments(Extension):
    """A griffe extension that rewrites the docstring of every object."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _listed(obj.docstring.value)

    def on_class_members(self, *, cls: Class, **kwargs: Any) -> None:
        """Show a method that a stub file has as overloads only by the last one, which takes keywords."""
        for name, overloads in cls.overloads.items():
            if name not in cls.members:
                cls.set_member(name, overloads[-1])


def _listed(text: str) -> str:
    return _ITEM.sub(_list_item, text)


def _list_item(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return f"- {names}: " + re.sub(r"\n +", " ", found[2])
