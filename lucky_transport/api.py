"""The functions of the package: `make` an env, `connect` to an engine, `serve` one.

Settings are resolved here, once (argument > environment > file > default); below, only `Settings` is passed on.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.chosen import check_agreement, choose_transport, chosen_interceptors, end_of
from lucky_transport.config import Settings, load_settings
from lucky_transport.deadline import log_long_wait
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.engine_options import check_call, check_num_envs
from lucky_transport.errors import (
    ConfigError,
    SpecError,
    raise_wire_error,
)
from lucky_transport.limits import within_limits
from lucky_transport.process import EngineProcess, clean_up, unique_name
from lucky_transport.registry import load, registry
from lucky_transport.serving import Server, Serving
from lucky_transport.table_readers import parse_rates
from lucky_transport.transport import Transport

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

    from lucky_transport.client import AsyncClient, Client
    from lucky_transport.env.vector_env import VectorEnv

# What an engine needs not is imported where it is used: its process starts a tenth sooner without asyncio.


_log = logging.getLogger("lucky_transport")

#: The scheme of the migration kit's transport that records another one.
_RECORDED = "recorded"


def make_engine(engine: str, num_envs: int = 1, *, seed: int | None = None, **options: Any) -> Engine:
    """Return a new engine "name" or "name:variant", in this process.

    Raises UnknownName (engine or variant), MissingExtra, ConfigError (num_envs, or an option the engine does not have),
    SpecError (an option's value).
    """
    return _make_engine(engine, num_envs, seed=seed, **options)


def _make_engine(engine: str, num_envs: int, /, *, seed: int | None = None, **options: Any) -> Engine:
    check_num_envs(num_envs)
    _check_name(engine, "make_engine")
    name, _, variant = engine.partition(":")
    info = registry().engine(engine)
    factory = load(info.factory, owner=f"engine {name!r}", extra=info.extra)
    if seed is not None:
        options["seed"] = seed
    check_call(name, factory, options)
    try:
        return factory(variant, num_envs=num_envs, **options)
    except Exception:  # its traceback shows what is wrong
        raise
    except BaseException as error:  # it would end the program
        raise_wire_error(engine, "its constructor", error)


def open_transport(endpoint: str | Endpoint, settings: Settings | None = None) -> Transport:
    """Return the client end of a connection to the engine at `endpoint`, recorded where the settings say so.

    Raises UnknownName (scheme), Unimplemented (the transport has no client), MissingExtra, NotReachable, Busy.
    """
    endpoint = Endpoint.parse(endpoint)
    settings = settings or load_settings()
    if settings.record and endpoint.scheme != _RECORDED:
        endpoint = Endpoint(_RECORDED, "", (("to", str(endpoint)), ("file", settings.record)))
    info = registry().transport_of_scheme(endpoint.scheme)
    client = end_of(info, "client", endpoint)
    interceptors = chosen_interceptors(settings)
    timeout_s = settings.start_timeout_s if info.starts_engines else settings.connect_timeout_s
    what = f"the engine at {endpoint}"
    with log_long_wait(what, timeout_s), within_limits(f"{what} cannot be reached"):
        if not interceptors:
            return client(endpoint, settings)
        # A transport that leads to others opens them with these settings: they are around it, not around each.
        inner = client(endpoint, replace(settings, interceptors=()))
    from lucky_transport.interceptors.transport import InterceptedTransport

    return InterceptedTransport(inner, interceptors, endpoint, settings)


def connect(endpoint: str | None = None, **settings: Any) -> Client:
    """Return typed service clients for the engine at `endpoint` (default: `LUCKY_ENDPOINT`).

    `settings` are fields of `lucky_transport.config.Settings`. Raises ConfigError when no endpoint is configured.
    """
    from lucky_transport.client import Client

    resolved = _resolve(endpoint, settings)
    return Client(open_transport(resolved.endpoint, resolved))


def connect_async(endpoint: str | None = None, **settings: Any) -> AsyncClient:
    """Return typed service clients for asyncio, to be used with `async with`, or awaited and closed.

    Arguments and errors as `connect`; a wrong setting raises at once, what connecting raises comes from `async with`.
    """
    from lucky_transport.client import AsyncClient

    resolved = _resolve(endpoint, settings)
    return AsyncClient(lambda: open_transport(resolved.endpoint, resolved))


def _resolve(endpoint: str | None, settings: Mapping[str, Any]) -> Settings:
    """Return the settings of a connection that is to be made to a running engine."""
    resolved = load_settings({**settings, "endpoint": endpoint})
    if not resolved.endpoint:
        raise ConfigError("no endpoint to connect to", hint="pass connect('shm://name') or set LUCKY_ENDPOINT")
    check_agreement(resolved)
    return resolved


def serve(
    engine: str | Engine,
    endpoint: str | Sequence[str],
    *,
    num_envs: int = 1,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Serving:
    """Run an engine at one or several endpoints in this process; returns when clients can connect.

    Use the result as a context manager or call its `stop`. The setting `interceptors` is for the engine's side here.
    Raises what `make_engine` and the transports' servers raise.
    """
    if not isinstance(engine, Engine):
        _check_name(engine, "serve")
    resolved = load_settings(settings)
    endpoints = [endpoint] if isinstance(endpoint, str) else list(endpoint)
    servers = [_server(Endpoint.parse(one), resolved) for one in endpoints]
    rates = parse_rates(resolved.stream_fps)
    interceptors = chosen_interceptors(resolved)
    if isinstance(engine, str):
        engine = _make_engine(engine, num_envs, **{"seed": seed, **(options or {})})
    return Serving(
        engine,
        servers,
        interceptors,
        services=resolved.services,
        without=resolved.without_services,
        fps=rates,
    )


def _server(endpoint: Endpoint, settings: Settings) -> Server:
    make_server = end_of(registry().transport_of_scheme(endpoint.scheme), "server", endpoint)
    clean_up(endpoint.scheme)  # after a kill of an engine and its client there was nobody to do it
    return make_server(endpoint, settings)


def make(
    engine: str = "",
    num_envs: int = 1,
    *,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    autoreset_mode: AutoresetMode | str | None = None,
    framework: str | None = None,
    copy: bool = True,
    reward_fn: Callable[[dict[str, NDArray[np.float32]]], NDArray[np.float32]] | None = None,
    validate: str = "pass",
    render_mode: str | None = None,
    camera: str = "",
    render_size: tuple[int, int] | None = None,
    observations: str = "host",
    **settings: Any,
) -> VectorEnv:
    """Return a `gymnasium.vector.VectorEnv` over the configured transport.

    With an endpoint (argument or `LUCKY_ENDPOINT`) it connects to the engine there; num_envs 1 then means "as many as
    it has". Without one it starts an engine process of its own, which ends with `close`.

        with lucky_transport.make("toy", num_envs=4, options={"obs_size": 3}, autoreset_mode="SameStep") as env:
            observations, info = env.reset(seed=0)
            observations, rewards, terminated, truncated, info = env.step(env.action_space.sample())

        env = lucky_transport.make(endpoint="shm://demo", step_timeout_s=5.0)  # an engine that runs already

    engine: "name" or "name:variant"; `lucky-transport ls engines` lists them.
    num_envs: how many envs are stepped together.
    seed, options: of the engine's constructor; for an engine that is started here.
    autoreset_mode: what a step after the end of an episode does. "NextStep" (default) resets that env, "SameStep" has
        done so in the step that ended it, "Disabled" refuses it until `reset(options={"reset_mask": mask})`.
    framework: the training framework that the env is for, such as "sb3", "rsl_rl", "torchrl" or "skrl"; chooses the
        autoreset mode that it expects.
    copy: False makes the observation a read-only view that is valid until the next step, with observation_slots=2 until
        the one after it. Refused for a framework that keeps observations longer.
    reward_fn: computes the reward from the signals, name -> float32 (num_envs,). None: their sum.
    validate: "strict" refuses actions out of bounds; "pass" passes them on and counts them.
    render_mode, camera, render_size: "rgb_array" lets `render` give images, of the camera of that name ("": the first),
        with (width, height).
    observations: "device" leaves those of an engine that computes them on a GPU there, for `observations_torch`.

    settings: fields of `lucky_transport.config.Settings`, each also a variable `LUCKY_<SETTING>` and a key of a file:
        transport, endpoint, shm_name, wait, observation_slots, step_timeout_s, command_timeout_s, connect_timeout_s,
        start_timeout_s, max_message_bytes, record, interceptors; those without effect on an env:
        grpc_map, grpc_serve, grpc_serve_only, services, without_services, stream_fps, allow_host, allow_origin

    Raises ConfigError for a wrong argument, UnknownName, MissingExtra, NotReachable, Busy, SpecError.
    """
    _check_name(engine or "", "make")
    mode = _autoreset_mode(autoreset_mode, framework, copy)
    resolved = _with_slots(load_settings(settings, others=inspect.signature(make).parameters), mode)
    check_num_envs(num_envs)
    env_type = _env_type(observations)
    given: dict[str, Any] = {"autoreset_mode": mode, "copy": copy, "reward_fn": reward_fn, "validate": validate}
    given |= {"render_mode": render_mode, "camera": camera, "render_size": render_size}
    own: dict[str, Any] = {
        "observations": observations,
        "engine": engine,
        "num_envs": num_envs,
        "seed": seed,
        "options": dict(options or {}),
    }
    recipe = partial(make, **own, **given, **settings)
    if resolved.endpoint:
        recipe = partial(recipe, endpoint=resolved.endpoint)  # a pickled env returns to the same engine
        return _env_over(env_type, _engine_at(resolved, num_envs), None, resolved, recipe=recipe, **given)
    return _env_over(env_type, *_start(engine, num_envs, seed, options, resolved), resolved, recipe=recipe, **given)


def _env_over(env_type: Any, transport: Transport, owner: Any, settings: Settings, **given: Any) -> VectorEnv:
    """Return the env, which ends both; so does this where there is none."""
    from lucky_transport.env.connection import EnvConnection

    try:
        _check_slots(transport, settings)
        return env_type(transport, owner=owner, **given)
    except BaseException:
        EnvConnection(transport, owner).end()
        raise


def _env_type(observations: str) -> type[VectorEnv]:
    """Return the class of the env whose observations are there; raises ConfigError."""
    if observations == "device":
        from lucky_transport.env.device_env import DeviceVectorEnv

        return DeviceVectorEnv
    if observations != "host":
        raise ConfigError(f"observations {observations!r}: expected 'host' or 'device'")
    from lucky_transport.env.vector_env import VectorEnv

    return VectorEnv


def _check_name(engine: Any, function: str) -> None:
    """Raise ConfigError for what is no name of an engine."""
    if not isinstance(engine, str):
        raise ConfigError(
            f"{function}(): engine = {engine!r}: expected a name such as 'toy' or 'gymnasium:my_module:MyEnv-v0'",
            hint="`lucky-transport ls engines` lists the engines; an engine object of yours: "
            "serve(engine, 'inproc://mine'), make(endpoint='inproc://mine')",
        )


def _autoreset_mode(mode: AutoresetMode | str | None, framework: str | None, copy: bool) -> AutoresetMode | str:
    """Return the mode that was asked for, by name or by framework; raises UnknownName, ConfigError."""
    if framework is None:
        return "NextStep" if mode is None else mode
    from lucky_transport.env.autoreset import parse_mode

    info = registry().framework(framework)
    if not copy and info.keeps_observations:
        raise ConfigError(
            f"make(framework={framework!r}, copy=False): {framework} keeps an observation beyond the next step, "
            "which would write over it",
            hint="drop copy=False",
        )
    needed = parse_mode(info.autoreset_mode)
    if mode is not None and parse_mode(mode) is not needed:
        raise ConfigError(
            f"make(framework={framework!r}) needs autoreset_mode {needed.value!r}, {str(mode)!r} was passed",
            hint="drop one of them",
        )
    return needed


def _engine_at(settings: Settings, num_envs: int) -> Transport:
    """Return a connection to the engine at the endpoint of the settings, which has as many envs as were asked for."""
    check_agreement(settings)
    transport = open_transport(settings.endpoint, settings)
    try:
        check_offered_envs(transport, num_envs, settings.endpoint)
    except BaseException:
        transport.close()
        raise
    return transport


def _start(
    engine: str, num_envs: int, seed: int | None, options: Mapping[str, Any] | None, settings: Settings
) -> tuple[Transport, EngineProcess | Serving]:
    """Start the engine for one env of our own and connect to it."""
    if not engine:
        raise ConfigError(
            "make() needs an engine or an endpoint", hint="pass make('toy') or make(endpoint='shm://name')"
        )
    if "://" in engine:
        raise ConfigError(f"make(): {engine!r} is an endpoint, not an engine", hint=f"pass make(endpoint={engine!r})")
    info = choose_transport(settings)
    endpoint = info.local_endpoint.format(name=settings.shm_name or unique_name())
    owner: EngineProcess | Serving
    if info.name == "inproc":
        owner = serve(engine, endpoint, num_envs=num_envs, seed=seed, options=options)
    else:
        registry().engine(engine)  # an unknown name fails here, not in the child
        load(info.client, owner=f"transport {info.name!r}", extra=info.extra)
        owner = EngineProcess(
            engine,
            [endpoint],
            num_envs=num_envs,
            seed=seed,
            options=options,
            wait=settings.wait,
            observation_slots=settings.observation_slots,
            max_message_bytes=settings.max_message_bytes,
            start_timeout_s=settings.start_timeout_s,
        )
    try:
        return open_transport(owner.endpoints[0], settings), owner
    except BaseException:
        owner.stop()
        raise


def _with_slots(settings: Settings, mode: AutoresetMode | str) -> Settings:
    """Return the settings with the slots that keep as many steps' observations; a step may take two exchanges."""
    from lucky_transport.env.autoreset import AutoresetMode, parse_mode

    exchanges = 2 if parse_mode(mode) is AutoresetMode.SAME_STEP else 1
    return replace(settings, observation_slots=exchanges * (settings.observation_slots - 1) + 1)


def _check_slots(transport: Transport, settings: Settings) -> None:
    """Raise ConfigError where observations would not stay as they are for as long as the settings ask for."""
    needed = settings.observation_slots
    if transport.observation_slots < needed:
        raise ConfigError(
            f"observation_slots ({settings.sources.get('observation_slots', 'default')}): {needed} are needed in this "
            f"autoreset mode, transport {transport.name!r} has {transport.observation_slots} here",
            backend=transport.name,
            hint=f"serve the engine with --observation-slots {needed} at a shm:// endpoint, or drop it and copy",
        )


def check_offered_envs(transport: Transport, asked: int, endpoint: str) -> None:
    """Raise SpecError unless the engine at `endpoint` has as many envs as were asked for; 1 means as many as it has."""
    offered = transport.spec.num_envs
    if asked == offered:
        return
    if asked == 1:
        _log.info("num_envs: the engine at %s has %d", endpoint, offered)
        return
    raise SpecError(
        f"num_envs {asked} asked for, the engine at {endpoint} has {offered}",
        hint=f"pass num_envs={offered}, or restart the engine with --num-envs {asked}",
    )
