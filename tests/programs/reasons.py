"""Why a program is not ready, in few words: the program itself, too few calls, or noise; and first what differs."""

from collections.abc import Iterator, Mapping
from typing import Any

from lucky_transport_migration.bounds import needed_trials

_MOST_NAMED = 3

#: A property of the program: its server answers another one like it otherwise, over one transport.
ITSELF = "its server differs from itself"

_REFUSES = "the program: it refuses drawn requests, and too few others can be timed: "
_NOISE = "noise, which more calls over a longer time outlast: "


def reasons(result: Mapping[str, Any], properties: Mapping[str, str]) -> list[str]:
    """Return what holds methods back, a clause for each reason, by what `signoff --json` printed.

    properties: what of the program itself does, by method.
    """
    if not result.get("methods"):
        return ["the program: its client makes no call through Python's grpc"]
    found: dict[str, list[str]] = {}
    for one in filter(lambda it: it["reasons"], result["methods"]):
        for why, what in _of(one, result, properties):
            found.setdefault(why, []).append(what)
    return [why + _listed(names) for why, names in sorted(found.items())]


def _of(one: Mapping[str, Any], result: Mapping[str, Any], properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    name, timed, gate, limits = one["method"].rpartition("/")[2], one["latency"], one["gate"], result["limits"]
    needed = max(limits["calls"], needed_trials(0, limits["mismatch_limit"], 1 - gate["error"]))
    why = ITSELF if one["method"] in result["itself"] else properties.get(one["method"], "")
    if properties.get(one["method"]) != ITSELF and (bad := one["mismatches"] + one["failures"]):
        yield "differs: ", f"{bad:,} of {name}"
    if why:
        yield f"the program: {why}: ", name
        return
    if not timed or (one["distinct"] >= needed and not gate["is_whole"]):
        yield _REFUSES, name
    elif one["distinct"] < needed:
        yield "too few calls: ", f"{needed - one['distinct']:,} more of {name}"
    for it in timed:
        if it["holds_back"]:
            bound = f"{it['percentile']} of {name} up to {it['at_most']:.2f}, {it['limit']:.2f} allowed"
            yield _NOISE if it["times"] < it["limit"] else "slower: ", bound


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
