"""Park words: who waits sets its word, fences and looks again; who publishes fences and looks at the word.

Rows of `lucky_park.h`, which the C kit has too, of `_native/wait.c` and of the ends, and what waits on which word:

    park_engine    the engine, for actions and commands together: two threads of the client wake it
    park_frame     the client, for a frame
    park_command   the client, for a record of the ring
    a ring's own   the poller's, which sleeps on sockets

There are no timeouts here: a wake-up that is lost is a sleep for ever. The real waits look again after 30 ms at most.
"""

from tests.model.explorer import Scenario
from tests.model.steps import (
    Break,
    Condition,
    If,
    Loop,
    Order,
    Process,
    Rows,
    Step,
    check,
    do,
    exchange,
    fence,
    futex_wait,
    futex_wake,
    load,
    store,
)

RELAXED, ACQUIRE, RELEASE, SEQ_CST = Order.RELAXED, Order.ACQUIRE, Order.RELEASE, Order.SEQ_CST
_POPPED = "the pop behind it loads the write position again, with acquire"


def wake(park: str) -> Rows:
    """lucky_park.h: lucky_wake"""
    return _unpark(park, futex_wake(park, "lucky_wake", "syscall(SYS_futex, park, FUTEX_WAKE, 1, NULL, NULL, 0)"))


def _unpark(park: str, woken: Step) -> Rows:
    """lucky_park.h: lucky_unpark, and what wakes a peer that was parked."""
    taken: Rows = [
        exchange("parked", park, 0, RELAXED, "lucky_unpark", "__atomic_exchange_n(park, 0, {})"),
        If(lambda r: r["parked"], [woken]),
    ]
    return [
        fence(SEQ_CST, "lucky_unpark"),
        load("parked", park, RELAXED, "lucky_unpark", "__atomic_load_n(park, {})"),
        If(lambda r: r["parked"], taken),
        do(lambda r: {"parked": 0}),
    ]


def changed(wide: str, narrow: str | None, over: Condition) -> Rows:
    """lucky_park.h: lucky_changed. `over`: True once what was loaded ends the wait."""
    rows: Rows = [load("wide", wide, RELAXED, "lucky_changed", "__atomic_load_n(w->wide, {})")]
    if narrow is not None:
        rows.append(If(lambda r: not over({**r, "narrow": None}), narrow_changed(narrow)))
    return rows


def narrow_changed(word: str) -> Rows:
    """lucky_park.h: lucky_changed, of a single u32"""
    return [load("narrow", word, RELAXED, "lucky_changed", "__atomic_load_n(w->narrow, {})")]


def wait_slice(park: str, looks: Rows, over: Condition) -> Rows:
    """wait.c: wait_slice, again and again until `over`; the looks that come before the park word are one here."""
    return [
        Loop(
            [
                *looks,
                Break(over),
                store(park, 1, RELAXED, "lucky_park", "__atomic_store_n(word, 1, {})"),
                fence(SEQ_CST, "lucky_park"),
                *looks,
                If(
                    lambda r: not over(r),
                    [
                        futex_wait(park, "lucky_park", "lucky_futex_wait(word, ns)"),
                        load("sleeps", park, RELAXED, "lucky_park", "__atomic_load_n(word, {})"),
                    ],
                ),
                store(park, 0, RELAXED, "lucky_park", "__atomic_store_n(word, 0, {})"),
            ]
        )
    ]


def client_publish(number: int) -> Rows:
    """client_channel.c: client_publish, without the actions"""
    text = "__atomic_store_n(c->action_seq, ++c->seq, {})"
    return [store("action_seq", number, RELEASE, "client_publish", text), *wake("park_engine")]


def engine_announce(number: int) -> Rows:
    """engine_channel.c: engine_announce, without the frame"""
    text = "__atomic_store_n(e->frame_seq, ++e->seq, {})"
    return [store("frame_seq", number, RELEASE, "engine_announce", text), *wake("park_frame")]


def ring_publish(word: str, position: int, park: str | None = None, event: str | None = None) -> Rows:
    """ring_writer.c: ring_publish and ring_wake; `event` is the reader's socket, where it has one."""
    rows: Rows = [store(word, position, RELEASE, "ring_publish", "__atomic_store_n(r->write, r->position, {})")]
    if park is not None:
        rows += wake(park) if event is None else _notify(park, event)
    return rows


def _notify(park: str, event: str) -> Rows:
    """ring_writer.c: ring_wake of a reader with a socket; sending to it is a full fence in the kernel."""
    notified = exchange("_", event, 1, SEQ_CST, "ring_wake", 'send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL)')
    return [*_unpark(park, notified), do(lambda r: {"_": 0})]


def _engine(actions: int, commands: int) -> Process:
    """Waits as engine_wait does, until it has found so many of each."""

    def over(r: dict[str, int | None]) -> bool:
        narrow = r["narrow"]
        return r["wide"] != r["seq"] or (narrow is not None and narrow != r["commands_read"])

    rows: Rows = [
        Loop(
            [
                Break(lambda r: r["seq"] == actions and r["commands_read"] == commands),
                *wait_slice("park_engine", changed("action_seq", "commands", over), over),
                load("wide", "action_seq", ACQUIRE, "engine_found", "lucky_load64(e->action_seq)"),
                load("narrow", "commands", ACQUIRE, "engine_found", "lucky_load32(e->commands)", kept=_POPPED),
                check(lambda r: r["wide"] >= r["seq"] and r["narrow"] >= r["commands_read"], "a counter goes back"),
                do(lambda r: {"seq": r["wide"], "commands_read": r["narrow"], "narrow": 0, "wide": 0}),
            ]
        )
    ]
    return Process("engine", rows, {"seq": 0, "commands_read": 0, "wide": 0, "narrow": 0})


def _exchanges(count: int) -> Scenario:
    client: Rows = []
    engine: Rows = []
    for n in range(1, count + 1):
        client += [
            *client_publish(n),
            *wait_slice("park_frame", changed("frame_seq", None, lambda r: True), lambda r, n=n: r["wide"] != n - 1),
        ]
        engine += [
            *wait_slice("park_engine", changed("action_seq", None, lambda r: True), lambda r, n=n: r["wide"] != n - 1),
            *engine_announce(n),
        ]
    words = {"action_seq": 0, "frame_seq": 0, "park_engine": 0, "park_frame": 0}
    processes = (Process("client", client), Process("engine", engine))
    return Scenario(f"{count} exchanges, both sides park", processes, words)


def _actions_and_commands(actions: int, commands: int) -> Scenario:
    stepper = Process("stepper", [row for n in range(1, actions + 1) for row in client_publish(n)])
    called = [row for n in range(1, commands + 1) for row in ring_publish("commands", n, "park_engine")]
    words = {"action_seq": 0, "commands": 0, "park_engine": 0}
    name = f"engine parks for {actions} actions and {commands} commands"
    return Scenario(name, (stepper, Process("caller", called), _engine(actions, commands)), words)


def _records(count: int) -> Scenario:
    writer = Process("engine", [row for n in range(1, count + 1) for row in ring_publish("write", n, "park_command")])
    rows: Rows = []
    for n in range(1, count + 1):
        rows += wait_slice("park_command", narrow_changed("write"), lambda r, n=n: r["narrow"] >= n)
    words = {"write": 0, "park_command": 0}
    return Scenario(f"client parks for {count} records", (writer, Process("client", rows)), words)


def _poller(records: tuple[int, ...]) -> Scenario:
    """poller.py: every ring is armed, then one epoll over their sockets, edge-triggered: one event word here."""
    rings = range(len(records))
    writers = tuple(
        Process(
            f"client {i}",
            [row for n in range(1, records[i] + 1) for row in ring_publish(f"write{i}", n, f"park{i}", "event")],
        )
        for i in rings
    )
    written = [
        load(f"written{i}", f"write{i}", ACQUIRE, "ring_written", "lucky_load32(r->write)", kept=_POPPED) for i in rings
    ]
    body: Rows = []
    for i in rings:
        body += [
            store(f"park{i}", 1, RELAXED, "ring_arm", "__atomic_store_n(r->park, 1, {})"),
            fence(SEQ_CST, "ring_arm"),
            written[i],
            If(
                lambda r, i=i: r[f"written{i}"] != r[f"read{i}"],
                [store(f"park{i}", 0, RELAXED, "ring_arm", "__atomic_store_n(r->park, 0, {})")],
            ),
        ]
    body.append(
        If(
            lambda r: all(r[f"written{i}"] == r[f"read{i}"] for i in rings),
            [exchange("_", "event", 0, SEQ_CST, "Poller._ask_epoll", "self._epoll.poll(", until=bool)],
        )
    )
    for i in rings:
        body.append(store(f"park{i}", 0, RELAXED, "ring_disarm", "__atomic_store_n(r->park, 0, {})"))
    for i in rings:
        body += [written[i], do(lambda r, i=i: {f"read{i}": r[f"written{i}"], f"written{i}": 0, "_": 0})]
    poller = Process(
        "engine",
        [Loop([Break(lambda r: all(r[f"read{i}"] == records[i] for i in rings)), *body])],
        {f"read{i}": 0 for i in rings},
    )
    words = {"event": 0} | {f"{word}{i}": 0 for i in rings for word in ("write", "park")}
    return Scenario(f"poller with rings of {records} records", (*writers, poller), words)


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: what the tests run."""
    if bound <= 1:
        return [_actions_and_commands(1, 1), _exchanges(2), _records(2), _poller((1,))]
    return [_actions_and_commands(2, 1), _exchanges(bound + 1), _records(bound + 1), _poller((2,)), _poller((1, 1))]
