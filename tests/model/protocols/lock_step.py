"""Lock-step: actions and control bytes before action_seq, the frame and its status before frame_seq.

Rows of `_native/client_channel.c` and `engine_channel.c`; the park words are in park_words.py. Arrays have two
elements. A command that is pushed before an action is drained before that step. The last exchange is refused: it has a
status and an error text instead of a frame.
"""

from tests.model.explorer import Scenario
from tests.model.protocols.park_words import ring_publish
from tests.model.steps import Break, If, Loop, Order, Process, Rows, check, do, load, read, store, write

RELAXED, ACQUIRE, RELEASE = Order.RELAXED, Order.ACQUIRE, Order.RELEASE
_POPPED = "the pop behind it loads the write position again, with acquire"
_REFUSED = 13
_WIDE = "__atomic_load_n(w->wide, {})"
_FOUND = [
    load("wide", "action_seq", ACQUIRE, "engine_found", "lucky_load64(e->action_seq)"),
    load("narrow", "commands", ACQUIRE, "engine_found", "lucky_load32(e->commands)", kept=_POPPED),
]


def _pair(name: str, number: int) -> Rows:
    return [write(f"{name}{i}", number) for i in range(2)]


def _whole(name: str, number: int) -> Rows:
    rows: Rows = []
    for i in range(2):
        rows.append(read("data", f"{name}{i}"))
        rows.append(check(lambda r: r["data"] == number, f"{name} of exchange {number} are torn or stale"))
    return [*rows, do(lambda r: {"data": 0})]


def _status(number: int, exchanges: int) -> int:
    return _REFUSED if number == exchanges else 0


def _client(exchanges: int, command_before: int) -> Process:
    rows: Rows = []
    for n in range(1, exchanges + 1):
        if n == command_before:
            rows += [write("command", n), *ring_publish("commands", 1)]
        rows += [
            *_pair("actions", n),
            write("control", n % 2, "client_publish", "memcpy(c->control, bits, c->control_format.size)"),
            store("action_seq", n, RELEASE, "client_publish", "__atomic_store_n(c->action_seq, ++c->seq, {})"),
            load("frame_seq", "frame_seq", RELAXED, "lucky_changed", _WIDE, until=lambda found, n=n: found != n - 1),
            load("frame_seq", "frame_seq", ACQUIRE, "client_collect", "lucky_load64(c->frame_seq)"),
            check(lambda r, n=n: r["frame_seq"] == n, "frame_seq moves by more than one"),
            load("status", "frame_status", RELAXED, "client_collect", "__atomic_load_n(c->frame_status, {})"),
            check(lambda r, n=n: r["status"] == _status(n, exchanges), "the status of another exchange"),
            do(lambda r: {"frame_seq": 0, "status": 0}),
            *(_whole("error", n) if _status(n, exchanges) else _whole("observations", n)),
        ]
    return Process("client", rows)


def _engine(exchanges: int, command_before: int) -> Process:
    rows: Rows = []
    status = "__atomic_store_n(e->frame_status, status, {})"
    for n in range(1, exchanges + 1):
        commands = int(n >= command_before)
        rows += [
            Loop(
                [
                    load("wide", "action_seq", RELAXED, "lucky_changed", _WIDE),
                    Break(lambda r, n=n: r["wide"] != n - 1),
                    load("narrow", "commands", RELAXED, "lucky_changed", "__atomic_load_n(w->narrow, {})"),
                    If(
                        lambda r: r["narrow"] != r["commands_read"],
                        [
                            *_FOUND,
                            *_drain(command_before),
                        ],
                    ),
                    Break(lambda r, n=n: r["wide"] != n - 1),
                ]
            ),
            *_FOUND,
            check(lambda r, n=n: r["wide"] == n, "action_seq moves by more than one"),
            If(lambda r: r["narrow"] != r["commands_read"], _drain(command_before)),
            check(
                lambda r, commands=commands: r["commands_read"] >= commands, "a command before the step is not drained"
            ),
            do(lambda r: {"wide": 0, "narrow": 0}),
            read("data", "control", "engine_found", "any_nonzero(e->control, e->num_envs)"),
            check(lambda r, n=n: r["data"] == n % 2, "control bytes of another exchange"),
            *_whole("actions", n),
            *(_pair("error", n) if _status(n, exchanges) else _pair("observations", n)),
            store("frame_status", _status(n, exchanges), RELAXED, "engine_announce", status),
            store("frame_seq", n, RELEASE, "engine_announce", "__atomic_store_n(e->frame_seq, ++e->seq, {})"),
        ]
    return Process("engine", rows, {"commands_read": 0, "wide": 0, "narrow": 0})


def _drain(command_before: int) -> Rows:
    """The pipe pops the record; what else the ring does for that is in ring.py."""
    return [
        load("narrow", "commands", ACQUIRE, "ring_oldest", "lucky_load32(r->write)"),
        do(lambda r: {"commands_read": r["narrow"]}),
        read("data", "command"),
        check(lambda r: r["data"] == command_before, "the command is torn or stale"),
        do(lambda r: {"data": 0}),
    ]


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: two exchanges, a command before the last; each further one adds one."""
    exchanges = bound + 1
    atomic = {"action_seq": 0, "frame_seq": 0, "frame_status": 0, "commands": 0}
    arrays = [f"{name}{i}" for name in ("actions", "observations", "error") for i in range(2)]
    plain = dict.fromkeys([*arrays, "control", "command"], 0)
    processes = (_client(exchanges, exchanges), _engine(exchanges, exchanges))
    return [Scenario(f"{exchanges} exchanges, a command before the last", processes, atomic, plain)]
