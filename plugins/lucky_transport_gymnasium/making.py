"""Makes Gymnasium envs, and says what is wrong when that fails.

Rule 1: no exception of Gymnasium's leaves this file as it is; each becomes one of ours with the remedy.
Rule 2: what Gymnasium warns about while it makes envs goes to the log "lucky_transport", once, not once per env.
"""

from __future__ import annotations

import difflib
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
from gymnasium import error as gymnasium_error

from lucky_transport.errors import EngineFailed, MissingExtra, SpecError, TransportError, UnknownName

__all__ = ["make_envs"]

_log = logging.getLogger("lucky_transport")


def make_envs(env_id: str, num_envs: int, options: Mapping[str, Any]) -> list[gymnasium.Env[Any, Any]]:
    """Return that many envs `gymnasium.make(env_id, **options)`.

    Gymnasium's passive checker is off unless `options` say otherwise: it is a tool for writing an env, and would warn
    in each of N copies. Raises UnknownName, MissingExtra, SpecError (options), EngineFailed; then no env is left open.
    """
    if not env_id:
        raise UnknownName("the gymnasium engine needs an env id", hint="use gymnasium:CartPole-v1")
    arguments: dict[str, Any] = {"disable_env_checker": True, **options}
    envs: list[gymnasium.Env[Any, Any]] = []
    with _warnings_to_log(env_id):
        try:
            for _ in range(num_envs):
                envs.append(gymnasium.make(env_id, **arguments))
        except Exception as error:  # an env's constructor is foreign code and may raise anything
            for env in envs:
                env.close()
            raise _explained(env_id, options, error) from error
    return envs


@contextmanager
def _warnings_to_log(env_id: str) -> Iterator[None]:
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
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "import the package that registers it"
            return UnknownName(f"no Gymnasium env {env_id!r}", backend="gymnasium", hint=hint)
        case gymnasium_error.DependencyNotInstalled():
            return MissingExtra(text, backend="gymnasium")
        case ModuleNotFoundError():
            return MissingExtra(
                text, backend="gymnasium", hint="install that package; 'module:id' imports the module first"
            )
        case TypeError():
            return SpecError(
                text, backend="gymnasium", hint=f"options {dict(options)} go to gymnasium.make; see the env's page"
            )
        case gymnasium_error.Error():
            return SpecError(text, backend="gymnasium")
        case _:
            return EngineFailed(text, backend="gymnasium")
