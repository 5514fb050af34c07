"""The transports, engines and commands that plugins offer.

This is the only place that finds and loads plugins. Each load is guarded, so that one broken plugin hides no other.

Plugins are found by entry points, which are those of `importlib.metadata.entry_points`. That reads every group of every
distribution and imports the parser of emails, which takes a quarter as long again as all else that
`lucky-transport --help` or the launcher does. So the files of the installed distributions are read here; what lies in
zip files, or is found by finders of others, is left to it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from importlib.machinery import PathFinder
from typing import Any, NamedTuple, TypeVar

import pluggy

from lucky_transport import hookspecs
from lucky_transport.errors import BrokenPlugin, MissingExtra, UnknownName, did_you_mean, is_interruption
from lucky_transport.hookspecs import (
    PROJECT,
    CommandInfo,
    EngineInfo,
    ForeignServicesInfo,
    FrameworkInfo,
    InterceptorInfo,
    PatchPlugin,
    RouterPlugin,
    TransportInfo,
)
from lucky_transport.version import install_command

#: Import name -> what pip calls it, for packages of the extras that have two names.
_DISTRIBUTIONS = {
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "hdrh": "hdrhistogram",
    "opentelemetry": "opentelemetry-api",
    "posix_ipc": "posix-ipc",
    "prometheus_client": "prometheus-client",
}

_Info = TypeVar(
    "_Info",
    TransportInfo,
    EngineInfo,
    CommandInfo,
    ForeignServicesInfo,
    FrameworkInfo,
    InterceptorInfo,
    PatchPlugin,
    RouterPlugin,
)


@dataclass
class Registry:
    """The offers of all plugins by name; `broken` maps an entry point's name to the error that its import raised."""

    transports: dict[str, TransportInfo] = field(default_factory=dict[str, TransportInfo])
    engines: dict[str, EngineInfo] = field(default_factory=dict[str, EngineInfo])
    commands: dict[str, CommandInfo] = field(default_factory=dict[str, CommandInfo])
    foreign_services: dict[str, ForeignServicesInfo] = field(default_factory=dict[str, ForeignServicesInfo])
    interceptors: dict[str, InterceptorInfo] = field(default_factory=dict[str, InterceptorInfo])
    frameworks: dict[str, FrameworkInfo] = field(default_factory=dict[str, FrameworkInfo])
    patches: dict[str, PatchPlugin] = field(default_factory=dict[str, PatchPlugin])
    routers: dict[str, RouterPlugin] = field(default_factory=dict[str, RouterPlugin])
    broken: dict[str, BaseException] = field(default_factory=dict[str, BaseException])

    def transport(self, name: str) -> TransportInfo:
        """Return the transport called `name`; raises UnknownName, or BrokenPlugin when that plugin's import failed."""
        return self._find(self.transports, name, "transport")

    def transport_of_scheme(self, scheme: str) -> TransportInfo:
        """Return the transport that serves URLs of `scheme`; raises UnknownName."""
        by_scheme = {s: info for info in self.transports.values() for s in info.schemes}
        return self._find(by_scheme, scheme, "endpoint scheme")

    def engine(self, engine: str) -> EngineInfo:
        """Return the engine of "name" or "name:variant"; raises UnknownName."""
        name = engine.partition(":")[0]
        if name not in self.engines and _GYMNASIUM_ID.search(engine):
            known = ", ".join(sorted(self.engines))
            raise UnknownName(f"no engine {engine!r}", hint=f"did you mean 'gymnasium:{engine}'? known: {known}")
        return self._find(self.engines, name, "engine")

    def interceptor(self, name: str) -> InterceptorInfo:
        """Return the interceptor called `name`; raises UnknownName, BrokenPlugin."""
        return self._find(self.interceptors, name, "interceptor")

    def framework(self, name: str) -> FrameworkInfo:
        """Return the training framework called `name`; raises UnknownName."""
        return self._find(self.frameworks, name, "framework")

    def _find(self, table: Mapping[str, _Info], name: str, what: str) -> _Info:
        if name in table:
            return table[name]
        if name in self.broken:
            raise BrokenPlugin(
                f"plugin {name!r} failed to load: {_describe(self.broken[name])}",
                backend=name,
                hint="mend or uninstall it; `lucky-transport doctor` lists all plugins",
            ) from self.broken[name]
        known = ", ".join(sorted(table)) or "none"
        raise UnknownName(f"no {what} {name!r}", hint=f"{did_you_mean(name, table)}known: {known}")


#: Gymnasium's ids of envs end with a version, and no engine's name does.
_GYMNASIUM_ID = re.compile(r"-v\d+$")


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def load(target: str, *, owner: str, extra: str = "") -> Any:
    """Return the object "module:attribute".

    Raises MissingExtra, with the pip command, when a module outside this project is not installed; BrokenPlugin for any
    other failure of the import.
    """
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        # Made by a function: an error in a variable here would hold its own traceback, and that the callers' objects.
        raise _not_found(error, module_name, owner, extra) from error
    except BaseException as error:  # a foreign module may raise anything while it is imported
        if is_interruption(error):
            raise
        raise BrokenPlugin(f"{owner} failed to load: {_describe(error)}", backend=owner) from error


def _not_found(error: ModuleNotFoundError, module_name: str, owner: str, extra: str) -> MissingExtra | BrokenPlugin:
    """Return the error of a load that found no module; `module_name` itself belongs to the plugin."""
    missing = None
    if (error.name or "").partition(".")[0] != module_name.partition(".")[0]:
        missing = missing_extra(error, owner=owner, extra=extra)
    return missing or BrokenPlugin(f"{owner} failed to load: {_describe(error)}", backend=owner)


def missing_extra(error: ModuleNotFoundError, *, owner: str, extra: str) -> MissingExtra | None:
    """Return the error with the pip command that installs what `owner` lacks.

    None where `extra` is empty or a module of this project is missing: no command installs that.
    """
    missing = (error.name or "").partition(".")[0]
    if not extra or not missing or missing.startswith(PROJECT):
        return None
    return MissingExtra(
        f"{owner} needs the package {_DISTRIBUTIONS.get(missing, missing)!r}, which is not installed",
        backend=owner,
        hint=install_command(extra),
    )


@cache
def registry() -> Registry:
    """Return the registry of this process, built at the first call."""
    return discover(entry_points(PROJECT))


def discover(points: Iterable[EntryPoint]) -> Registry:
    """Return a registry of the core's own plugins and of `points`; a point that fails is recorded, not raised."""
    found = Registry()
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(importlib.import_module("lucky_transport.builtin"), "builtin")
    for point in points:
        try:
            manager.register(point.load(), point.name)
        except BaseException as error:  # a foreign module may raise anything while it is imported
            if is_interruption(error):
                raise
            found.broken[point.name] = error
    plugins = manager.list_name_plugin()
    for name, plugin in reversed(plugins):  # as pluggy calls them: what was registered last comes first
        others = [other for _, other in plugins if other is not plugin]
        try:
            for hook, table in _HOOKS:
                for infos in manager.subset_hook_caller(hook, others)():
                    for info in infos:
                        getattr(found, table).setdefault(info.name, info)
        except BaseException as error:  # a hook is foreign code too
            if is_interruption(error):
                raise
            found.broken[name] = error
    return found


#: Hook -> the registry's table that its answers belong to.
_HOOKS = (
    ("lucky_transport_transports", "transports"),
    ("lucky_transport_engines", "engines"),
    ("lucky_transport_commands", "commands"),
    ("lucky_transport_foreign_services", "foreign_services"),
    ("lucky_transport_interceptors", "interceptors"),
    ("lucky_transport_frameworks", "frameworks"),
    ("lucky_transport_patches", "patches"),
    ("lucky_transport_routers", "routers"),
)


#: The names of folders with metadata: `name-version.dist-info`, of older installs `name.egg-info`.
_METADATA = re.compile(r"(?P<name>[^-]+).*\.(?:dist|egg)-info")


class EntryPoint(NamedTuple):
    """An object that a distribution offers by name."""

    name: str
    value: str

    def load(self) -> object:
        """Import the object. Raises whatever its module raises."""
        module, _, attributes = self.value.partition("[")[0].strip().partition(":")
        return reduce(getattr, filter(None, attributes.split(".")), importlib.import_module(module))


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group; of a distribution that is on the path twice, those of the first one."""
    if _has_other_finders() or any(map(os.path.isfile, sys.path)):
        from importlib import metadata

        return [EntryPoint(point.name, point.value) for point in metadata.entry_points(group=group)]
    return [point for folder in _metadata_folders(sys.path) for point in _points_in(folder, group)]


def _has_other_finders() -> bool:
    """True where more than the path is asked for distributions."""
    return any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path)


def _metadata_folders(path: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for place in path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if found := _METADATA.fullmatch(name):
                distribution = re.sub(r"[-_.]+", "_", found["name"]).lower()
                if distribution not in seen:
                    seen.add(distribution)
                    yield os.path.join(place, name)


def _points_in(folder: str, group: str) -> Iterator[EntryPoint]:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip())
