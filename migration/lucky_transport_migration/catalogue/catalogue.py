"""Every method that a command can name, in one place: names and patterns fit the same in all of them.

    catalogue = Catalogue(folder=Path("lucky-evidence"), declared={"Weather/Get*": Effect.READ})
    catalogue.find("Weather/*")                             # a full name, a short one, or a shell pattern
    catalogue.method("/weather.v1.Weather/GetForecast").effect

Known are LuckyEngine's methods, those that a FileDescriptorSet describes (kept in the evidence folder by the programs
that called them), those of generated modules that this program has imported, and by their names alone those that were
seen. What a call changes is what `declared` says, else what its service's description does; LuckyEngine's table stands
over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from lucky_transport.errors import UnknownName
from lucky_transport.messages.method import is_pattern, matches, most_exact, short_name
from lucky_transport.messages.methods import METHODS, Effect
from lucky_transport_migration.catalogue.descriptors import kept_sets, method_of_program, methods_in
from lucky_transport_migration.catalogue.effects import REASONS, UNSAID
from lucky_transport_migration.catalogue.service_method import ServiceMethod

#: LuckyEngine's methods, by full name.
OWN: Mapping[str, ServiceMethod] = {
    row.name: ServiceMethod(
        row.name, row.effect, REASONS.get(row.name, UNSAID), "LuckyEngine", False, row.stream, row.request, row.response
    )
    for row in METHODS
}


def known_method(name: str) -> ServiceMethod | None:
    """Return LuckyEngine's method of that full name, or that of a generated module of this program; None for none."""
    return OWN.get(name) or method_of_program(name)


class Catalogue:
    """See the module. folder: of the evidence, None for none. declared: name or pattern -> effect. seen: returns the
    full names of methods that were seen; it is called where a text fits nothing else. described: methods by their
    descriptors, before those of the folder.
    """

    def __init__(
        self,
        folder: Path | None = None,
        declared: Mapping[str, Effect] | None = None,
        *,
        described: Iterable[ServiceMethod] = (),
        seen: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._folder = folder
        self.declared = dict(declared or {})
        self._described = {one.name: one for one in described}
        self._seen = seen
        self._kept: dict[str, ServiceMethod] | None = None

    def __iter__(self) -> Iterator[ServiceMethod]:
        """Yield LuckyEngine's methods in their order, then those that a descriptor describes, by name.

        Raises ConfigError and OSError where what was kept cannot be read.
        """
        yield from OWN.values()
        described = self._from_folder() | self._described
        yield from (self._as_declared(described[name]) for name in sorted(described) if name not in OWN)

    def method(self, name: str) -> ServiceMethod:
        """Return what is known of the method of that full name, which may be no more than the name."""
        if name in OWN:
            return OWN[name]
        found = self._described.get(name) or method_of_program(name) or self._from_folder().get(name)
        return self._as_declared(found or ServiceMethod(name, Effect.WORLD, UNSAID))

    def find(self, text: str) -> list[ServiceMethod]:
        """Return the methods that a name or pattern stands for. A full name may be one that nothing else is known of.

        Raises UnknownName, with the nearest names.
        """
        known = {one.name: one for one in self}
        found = [one for name, one in known.items() if matches(name, text)]
        if not found:
            known |= {name: self.method(name) for name in sorted(set(self._seen()) - set(known))}
            found = [one for name, one in known.items() if matches(name, text)]
        if found:
            return found
        if not is_pattern(text) and _is_full(text) and _service(text) not in map(_service, known):
            return [self.method(f"/{text.removeprefix('/')}")]
        kind = "fits" if is_pattern(text) else "is called"
        raise UnknownName(f"no method {kind} {text!r}", hint=_nearest(text, known))

    def covers(self, pattern: str, other: str) -> bool:
        """True when `other`, a name or pattern too, says nothing about methods that `pattern` does not fit.

        Decided by the methods that are known, and where `other` fits none by its text.
        """
        inner = [one.name for one in self if matches(one.name, other)]
        return all(matches(name, pattern) for name in inner) if inner else matches(other, pattern)

    def _as_declared(self, found: ServiceMethod) -> ServiceMethod:
        row = most_exact(found.name, self.declared)
        if row is None:
            return found
        effect = self.declared[row]
        return replace(found, effect=effect, reason=f'[stages.effects] "{row}" = "{effect.value}"')

    def _from_folder(self) -> dict[str, ServiceMethod]:
        if self._kept is None:
            kept: dict[str, ServiceMethod] = {}
            for content, path in () if self._folder is None else kept_sets(self._folder):
                try:
                    found = methods_in(content, path)
                except (ValueError, ImportError):  # damaged, or no protobuf here: names are known from the evidence
                    continue
                kept = {one.name: one for one in found} | kept
            self._kept = kept
        return self._kept


def _is_full(text: str) -> bool:
    """True for what is spelt as a full name of some service: "/package.Service/Method", with or without its slash."""
    service, slash, method = text.removeprefix("/").partition("/")
    return bool(service and slash and method) and "/" not in method and (text.startswith("/") or "." in service)


def _service(name: str) -> str:
    return name.removeprefix("/").partition("/")[0]


def _nearest(text: str, names: Iterable[str]) -> str:
    """Return a hint: methods of nearly that name, or of that name in another service; else the services."""
    shorts = {short_name(name): name for name in names}
    wanted = text.rpartition("/")[2].lower()
    near = [short for short in shorts if short.rpartition("/")[2].lower() == wanted]
    near = near or get_close_matches(short_name(text), shorts, n=2, cutoff=0.85)
    near = near or get_close_matches(text.rpartition("/")[2], [one.rpartition("/")[2] for one in shorts], n=2)
    if near:
        return f"did you mean {' or '.join(near)}?"
    services = dict.fromkeys(short.partition("/")[0] for short in shorts)
    return (
        f"the services are {', '.join(services)}; another becomes known by: lucky-transport stage register FILE.proto"
    )
