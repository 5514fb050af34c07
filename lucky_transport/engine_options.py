"""What an engine is made with and reset with, checked before the engine acts on it.

The same slip gives the same error in this process and in an engine's own.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lucky_transport.errors import ConfigError, SpecError, UnknownName, did_you_mean
from lucky_transport.messages import SetResetOptionsRequest, SetSeedsRequest, SetSeedsResponse
from lucky_transport.nesting import json_object

#: What a factory is called with beside the options.
_NO_OPTIONS = ("self", "variant", "num_envs")


def check_num_envs(num_envs: Any) -> int:
    """Return `num_envs` as an int; raises ConfigError for what is no number of envs."""
    try:
        number = operator.index(num_envs)
    except TypeError:
        number = 0
    if number < 1 or isinstance(num_envs, bool):
        raise ConfigError(f"num_envs = {num_envs!r}", hint="expected a whole number of envs, at least 1")
    return number


def option_names(*constructors: Callable[..., Any]) -> list[str]:
    """Return the names of the options that any of the constructors takes, in their order."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [
        name
        for constructor in constructors
        for name, parameter in inspect.signature(constructor).parameters.items()
        if parameter.kind in kinds and name not in _NO_OPTIONS
    ]
    return list(dict.fromkeys(names))


def check_options(engine: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise ConfigError, with the nearest name and all known ones, for an option of another name."""
    names = list(known)
    for name in options:
        if name not in names:
            raise ConfigError(
                f"engine {engine!r} has no option {name!r}",
                backend=engine,
                hint=f"{did_you_mean(name, names)}options: {', '.join(names) or 'none'}",
            )


def check_call(engine: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Check the options of a factory that takes no others than those it names; one with `**options` checks its own."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a callable without a signature
        return
    if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        check_options(engine, options, option_names(factory))


def unknown_variant(engine: str, variant: str, known: Iterable[str]) -> UnknownName:
    """Return the error for a variant that the engine does not have."""
    variants = list(known)
    names = [engine, *(f"{engine}:{one}" for one in variants)]
    return UnknownName(
        f"engine {engine!r} has no variant {variant!r}",
        backend=engine,
        hint=f"{did_you_mean(variant, variants, prefix=f'{engine}:')}use {' or '.join(names)}",
    )


def answer_seeds(request: SetSeedsRequest, num_envs: int, take: Callable[[dict[int, int]], object]) -> SetSeedsResponse:
    """Have `take` keep the seed of each env that the request seeds, and return the response.

    The response says what is wrong where there is not one seed per env, or `take` raises SpecError.
    """
    seeds, mask = request.seeds, request.mask
    if len(seeds) != num_envs:
        return SetSeedsResponse(False, f"{len(seeds)} seeds for {num_envs} envs: expected one per env")
    if len(mask) not in (0, num_envs):
        return SetSeedsResponse(False, f"mask of {len(mask)} bytes for {num_envs} envs: expected one per env")
    try:
        take({env: seed for env, seed in enumerate(seeds) if not mask or mask[env]})
    except SpecError as error:
        return SetSeedsResponse(False, str(error))
    return SetSeedsResponse(True)


def requested_options(request: SetResetOptionsRequest) -> dict[str, Any] | None:
    """Return the request's options, None when it has none. Raises SpecError unless they are a JSON object."""
    return json_object(request.options_json, "options_json") if request.options_json else None


def check_numbers(options: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise SpecError, with the option and all known ones, unless each has a finite number, a whole one for int."""
    for name, value in options.items():
        is_number = isinstance(value, (int, kinds.get(name, int))) and not isinstance(value, bool)
        if name not in kinds or not is_number or not abs(value) <= sys.float_info.max:  # NaN is not
            known = ", ".join(f"{one} (whole)" if kind is int else one for one, kind in kinds.items())
            near = "" if name in kinds else did_you_mean(name, kinds)
            raise SpecError(f"option {name}={value!r}", hint=f"{near}expected numbers for {known}")
