"""Envs on their own: an env's rows belong to the side that its `sent` and `done` name; `wake` says when to wake.

Rows of `lucky_transport/shm/segment/env_words.py` over the words of `_native/words.c`.
"""

from typing import Any

from tests.model.explorer import Scenario
from tests.model.protocols.park_words import narrow_changed, wait_slice, wake
from tests.model.steps import Break, If, Loop, Order, Process, Rows, check, do, load, read, store, write

RELAXED, ACQUIRE, RELEASE = Order.RELAXED, Order.ACQUIRE, Order.RELEASE
_CLIENT, _ENGINE = "ClientEnvWords", "EngineEnvWords"
_HOW_MANY = "it says how many, and hands nothing over"


def _count(word: str, value: Any) -> Rows:
    """_EnvWords._count"""
    text = "native.store32(self._mapping, self._at + word, value)"
    return [store(word, value, RELEASE, "_EnvWords._count", text)]


def _client(envs: int, *, waits: bool) -> Process:
    """Sends one env after the other, and waits until all have ended."""
    rows: Rows = []
    for env in range(envs):
        text = "native.store32(self._mapping, self._word(0, env), int(self._numbers[env]))"
        rows += [write(f"action{env}", 1), store(f"sent{env}", 1, RELEASE, f"{_CLIENT}._announce", text)]
        rows += [*_count("sends", env + 1), *wake("park_engine")]
    if not waits:
        return Process("client", rows)
    text = "native.load32(self._mapping, self._at + _FRAMES)"
    wanted = "native.store32(self._mapping, self._at + _WAKE, (count + more) % _LIMIT)"
    body: Rows = [load("count", "frames", ACQUIRE, f"{_CLIENT}.count", text), do(lambda r: {"ended": 0})]
    for env in range(envs):
        text = "native.load32(self._mapping, self._word(1, env))"
        ended: Rows = [
            load("done", f"done{env}", ACQUIRE, f"{_CLIENT}.ended", text),
            read("row", f"row{env}"),
            check(lambda r: r["row"] == 1, "the rows of an env that has not ended"),
            do(lambda r: {"ended": r["ended"] + 1}),
        ]
        body += [load("done", f"done{env}", RELAXED), If(lambda r: r["done"] == 1, ended)]  # NumPy looks at all first
    body += [
        Break(lambda r: r["ended"] == envs),
        store("wake", envs, RELEASE, f"{_CLIENT}.wait", wanted, kept=_HOW_MANY),
        *wait_slice("park_client", narrow_changed("frames"), lambda r: r["narrow"] != r["count"]),
        do(lambda r: {"narrow": 0, "done": 0, "row": 0}),
    ]
    return Process("client", [*rows, Loop(body)], {"count": 0, "ended": 0})


def _engine(envs: int) -> Process:
    """Steps every env once it was sent; the client is woken for the last."""
    text = "return native.load32(self._mapping, self._at + _SENDS)"
    body: Rows = [
        Break(lambda r: r["frames"] == envs),
        *wait_slice("park_engine", narrow_changed("sends"), lambda r: r["narrow"] != r["sends"]),
        load("sends", "sends", ACQUIRE, f"{_ENGINE}.wait", text),
    ]
    publish = f"{_ENGINE}.publish"
    for env in range(envs):
        sent = "self._numbers[env] = native.load32(self._mapping, self._word(0, env))"
        done = "native.store32(self._mapping, self._word(1, env), int(self._numbers[env]))"
        due = "due = frames - native.load32(self._mapping, self._at + _WAKE)"
        step: Rows = [
            load("sent", f"sent{env}", ACQUIRE, f"{_ENGINE}.sent", sent),
            read("action", f"action{env}"),
            check(lambda r: r["action"] == 1, "the actions of an env that was not sent"),
            write(f"row{env}", 1),
            store(f"done{env}", 1, RELEASE, publish, done),
            do(lambda r, env=env: {"frames": r["frames"] + 1, f"busy{env}": 1}),
            *_count("frames", lambda r: r["frames"]),
            *wake("always_0"),
            load("due", "wake", ACQUIRE, publish, due, kept=_HOW_MANY),
            If(lambda r: 0 < r["due"] <= r["frames"], wake("park_client")),
        ]
        idle = f"busy{env}"
        body += [
            load("sent", f"sent{env}", RELAXED),  # NumPy looks at all first
            If(lambda r, idle=idle: r["sent"] == 1 and not r[idle], step),
            do(lambda r: {"due": 0, "sent": 0, "action": 0, "narrow": 0}),
        ]
    return Process("engine", [Loop(body)], {"sends": 0, "frames": 0} | {f"busy{env}": 0 for env in range(envs)})


def _scenario(envs: int, *, waits: bool) -> Scenario:
    words = dict.fromkeys(("sends", "frames", "wake", "park_engine", "park_client", "always_0"), 0)
    words |= {f"{word}{env}": 0 for word in ("sent", "done") for env in range(envs)}
    cells = {f"{cell}{env}": 0 for cell in ("action", "row") for env in range(envs)}
    name = f"{envs} envs on their own{', the client waits' if waits else ''}"
    return Scenario(name, (_client(envs, waits=waits), _engine(envs)), words, cells)


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: two envs that are sent, one that is waited for."""
    return [_scenario(bound + 1, waits=False), _scenario(bound, waits=True)]
