"""How a library is driven: options={"libenv": {"handles": 4, ...}}; every other name belongs to the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from lucky_transport.errors import ConfigError, SpecError, did_you_mean

__all__ = ["LibenvSettings"]


@dataclass(frozen=True, slots=True)
class LibenvSettings:
    """How a library is driven.

    handles: how many envs of the library make the batch, each with num_envs / handles rows. 1: as gym3 does it, and
    the fastest. num_envs: each row on its own, which can be held and reset. threads: how many of them step at a time.
    seed_option: the library's int option that is its seed, "" when it has none. contiguous: for a library that takes a
    tensor of all envs for one array; costs a copy. isolated: whether the library gets a process of its own; None: where
    this process is not the engine's already.
    """

    handles: int = 1
    threads: int = 1
    seed_option: str = ""
    contiguous: bool = False
    isolated: bool | None = None

    @classmethod
    def of(cls, values: Any) -> Self:
        """Return the settings that `values` say, a mapping or None.

        Raises ConfigError for what is no setting, SpecError for a value of another kind.
        """
        if values is None:
            return cls()
        if not isinstance(values, Mapping):
            raise SpecError(f"option libenv = {values!r}: expected a dict", hint='{"libenv": {"handles": 1}}')
        known = {field.name: field for field in fields(cls)}
        for name, value in values.items():
            if name not in known:
                hint = f"{did_you_mean(name, known)}it has {', '.join(known)}"
                raise ConfigError(f"option libenv has no {name!r}", backend="libenv", hint=hint)
            kinds = (type(known[name].default), bool) if name == "isolated" else (type(known[name].default),)
            if type(value) not in kinds:
                raise SpecError(f"option libenv: {name} = {value!r}: expected {' or '.join(k.__name__ for k in kinds)}")
        return cls(**values)

    def check(self, num_envs: int) -> None:
        """Raise SpecError unless a batch of `num_envs` can be made like this."""
        if num_envs < 1:
            raise SpecError(f"num_envs {num_envs}: expected at least 1")
        if not 1 <= self.handles <= num_envs or num_envs % self.handles:
            raise SpecError(f"option libenv: {self.handles} handles for {num_envs} envs: expected a divisor of it")
        if not 1 <= self.threads <= self.handles:
            raise SpecError(f"option libenv: {self.threads} threads for {self.handles} handles: expected 1 to as many")
