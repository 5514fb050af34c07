"""Makes Gymnasium envs, and turns what Gymnasium raises into an error of ours with the remedy."""

from __future__ import annotations

import difflib
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import gymnasium
from gymnasium import error as gymnasium_error
from gymnasium.envs.registration import load_env_creator

from lucky_transport.engine_options import option_names
from lucky_transport.errors import (
    ConfigError,
    EngineFailed,
    MissingExtra,
    SpecError,
    TransportError,
    UnknownName,
    did_you_mean,
)

_log = logging.getLogger("lucky_transport")
_REGISTER = (
    "write gymnasium:MODULE:{id}, with the module that registers it: the engine is another process, which imports it "
    "first; what a script registers itself is found with transport='inproc'"
)
_MODULE = (
    "install that package, or run where the module is: it is looked for on sys.path, PYTHONPATH included, and by "
    "`lucky-transport serve` in the working folder too"
)


def make_envs(env_id: str, num_envs: int, options: Mapping[str, Any]) -> list[gymnasium.Env[Any, Any]]:
    """Return that many envs `gymnasium.make(env_id, **options)`.

    Gymnasium's passive checker is off unless `options` say otherwise: it is a tool for writing an env, and would warn
    in each of N copies. Raises UnknownName, MissingExtra, ConfigError (an unknown option), SpecError (its value),
    EngineFailed; then no env is left open.
    """
    if not env_id:
        raise UnknownName("the gymnasium engine needs an env id", hint="use gymnasium:CartPole-v1")
    arguments: dict[str, Any] = {"disable_env_checker": True, **options}
    with _warnings_to_log(env_id), ExitStack() as stack:
        try:
            envs = [stack.enter_context(closing(gymnasium.make(env_id, **arguments))) for _ in range(num_envs)]
        except Exception as error:
            raise _explained(env_id, options, error) from error
        stack.pop_all()
    return envs


@contextmanager
def _warnings_to_log(env_id: str) -> Iterator[None]:
    """Log each warning of Gymnasium's once, not once per env."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        _log.warning("gymnasium:%s: %s", env_id, text)


def _explained(env_id: str, options: Mapping[str, Any], error: Exception) -> TransportError:
    """Return the error of ours that says what Gymnasium's means."""
    text = f"gymnasium:{env_id}: {type(error).__name__}: {error}"
    match error:
        case gymnasium_error.UnregisteredEnv():
            near = difflib.get_close_matches(env_id, gymnasium.registry, n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _REGISTER.format(id=env_id)
            return UnknownName(f"no Gymnasium env {env_id!r}", backend="gymnasium", hint=hint)
        case gymnasium_error.DependencyNotInstalled():
            return MissingExtra(text, backend="gymnasium")
        case ModuleNotFoundError():
            return MissingExtra(text, backend="gymnasium", hint=_MODULE)
        case TypeError():
            if unknown := next((name for name in options if f"unexpected keyword argument {name!r}" in str(error)), ""):
                known = _option_names(env_id)
                hint = f"{did_you_mean(unknown, known)}options: {', '.join(known)}"
                return ConfigError(
                    f"engine 'gymnasium:{env_id}' has no option {unknown!r}", backend="gymnasium", hint=hint
                )
            return SpecError(
                text, backend="gymnasium", hint=f"options {dict(options)} go to gymnasium.make; see the env's page"
            )
        case gymnasium_error.DeprecatedEnv():
            return UnknownName(text, backend="gymnasium")
        case gymnasium_error.Error() if "Malformed environment ID" in str(error):
            return UnknownName(text, backend="gymnasium", hint="write for instance gymnasium:CartPole-v1")
        case gymnasium_error.Error():
            return SpecError(text, backend="gymnasium")
        case _:
            return EngineFailed(text, backend="gymnasium")


def _option_names(env_id: str) -> list[str]:
    """Return what `gymnasium.make` takes for this env: the arguments of the env's own constructor, and its own."""
    creator = gymnasium.spec(env_id.rpartition(":")[2]).entry_point  # its module is imported by now
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    of_env = option_names(creator) if creator is not None else []
    return [*of_env, *(name for name in option_names(gymnasium.make) if name not in ("id", *of_env))]
