"""The proof that typed calls are answered alike: one engine per transport, the same requests in the same order.

    proof = prove_commands("mujoco:quadruped", ("grpc", "shm"), count=12, seed=0)
    proof.equal, proof.sentence, proof.plain()

Every engine gets every request once, with the same seed and from the same start, so that what changes the world changes
all worlds alike; a difference in what is simulated shows in the calls that follow. DrawnRequests are made from what the
first engine says exists; every second one is corrupted. All methods are called in one shuffled sequence, round after
round, with steps between them. A round begins with what makes most of them answerable: play mode, a fresh episode, the
lidar on, a policy that drives. Streams are compared while the world stands still, and those of states also while it is
stepped. A stream is read to its end or 200 items when its method is called first, to three later; after one was left
its handler in the engine has to end. What no wire can carry is asked over transports with a wire only, and has to be
refused by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from lucky_transport.errors import Status, Unimplemented, UnknownName
from lucky_transport.messages import (
    EntityId,
    ImageFrame,
    SetLidarLiveRequest,
    SetPolicyActiveRequest,
    SetPolicyDescriptorRequest,
    StepRequest,
)
from lucky_transport.messages.methods import BY_NAME, METHODS, Effect, Method, method
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.catalogue import Catalogue
from lucky_transport_migration.compare.difference import Difference, short
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare, differing_at
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import EQUAL, NOT_COMPARED, PROOF, Evidence
from lucky_transport_migration.parity.call_answers import (
    FEW_ITEMS,
    MOST_ITEMS,
    OF_STATES,
    READS,
    WRONG_CALLS,
    Ask,
    accepts,
    ask,
    watched,
)
from lucky_transport_migration.parity.call_parity import CommandsParity, ParityCounts
from lucky_transport_migration.parity.drawn_requests import DrawnRequests
from lucky_transport_migration.parity.inventory import take_inventory
from lucky_transport_migration.parity.parity_evidence import AskedCall
from lucky_transport_migration.parity.stream_log import StreamLog
from lucky_transport_migration.paths import ConnectedEngine, Path, find_paths, open_links

_STEP = method("AgentService/Step")
_RESET = method("AgentService/ResetAgent")
_PLAY = method("SceneService/EnterPlayMode")
_LIDAR = method("LidarService/SetLidarLive")
_POLICY = method("AgentService/SetPolicyDescriptor")
_ACTIVE = method("AgentService/SetPolicyActive")

#: Told of each compared request.
Write = Callable[[Evidence], None]

#: One in so many requests is followed by a step.
_CALLS_PER_STEP = 6
_ROUNDS_PER_WATCH = 4
#: A stream that is read to its end is asked for so many items a second.
_FAST_HZ = 1000
#: An engine learns within this time that a stream was left.
_NOTICE_S = 10.0


def chosen_methods(pattern: str) -> tuple[Method, ...]:
    """Return the methods whose full or short name ("SceneService/GetEntity") matches a shell pattern; "all" is "*".

    Raises UnknownName when none does.
    """
    found = Catalogue().find("*" if pattern == "all" else pattern)
    if found[0].name not in BY_NAME:
        raise UnknownName(f"{found[0].name} is of a service of your own", hint="engines have LuckyEngine's methods")
    return tuple(BY_NAME[one.name] for one in found)


def prove_commands(
    engine: str,
    names: Sequence[str],
    *,
    methods: Sequence[Method] = METHODS,
    count: int = 12,
    seed: int = 0,
    num_envs: int = 2,
    options: Mapping[str, Any] | None = None,
    advance: Callable[[], None] = lambda: None,
    rules: ComparisonRules | None = None,
    write: Write = lambda _: None,
) -> CommandsParity:
    """Return the outcome of comparing the paths `names` (see paths.py) by `count` requests to each method.

    `advance` is called once per round. rules: how exactly which field is compared. write: is given the evidence of each
    request of these methods that a client would send, and of each that differs. Goes on after a difference, but not
    after a lost connection. Raises ConfigError for fewer than two different names, Unimplemented where a transport
    carries no typed calls, and what finding, starting and reaching the engines raises.
    """
    # with all services: an option of grpc picks the one that steps, and the other is not called then
    paths = [replace(one, options=tuple(it for it in one.options if it[0] != "service")) for one in find_paths(names)]
    with ExitStack() as stack:
        folder = FilePath(stack.enter_context(TemporaryDirectory(prefix="lucky_streams_")))
        logs = {path.name: StreamLog(folder / path.name) for path in paths}

        def start(path: Path) -> ConnectedEngine:
            noted = (logs[path.name].name,)
            return ConnectedEngine(path, engine, num_envs, seed=seed, options=options, interceptors=noted)

        links = open_links(stack, paths, start)
        for link in links:
            if not link.transport.capabilities.commands:
                raise Unimplemented(f"{link.path.name} carries no typed calls", hint="compare steps, --suite step")
        run = _Run(links, logs, list(methods), seed, rules or ComparisonRules(), write)
        for number in range(count):
            run.round(number)
            advance()
            if run.parity.lost:
                break
        return run.parity


@dataclass(frozen=True, slots=True)
class _Request:
    """One request to be made on every transport. `what` says of which kind it is."""

    method: Method
    message: Any
    what: str = "valid"
    ask: Ask = ask
    needs_wire: bool = False
    is_misuse: bool = False

    @property
    def text(self) -> str:
        """The request as one line for people."""
        return short(repr(self.message))


@dataclass
class _Run:
    """One sequence of requests, and what came of it."""

    links: Sequence[ConnectedEngine]
    logs: Mapping[str, StreamLog]
    methods: list[Method]
    seed: int
    rules: ComparisonRules
    write: Write

    def __post_init__(self) -> None:
        names = [link.path.name for link in self.links]
        self.parity = CommandsParity(names, self.links[0].transport.spec.engine, rules=self.rules)
        self._random = Random(self.seed)
        self._known = take_inventory(self.links[0].transport)
        self._requests = DrawnRequests(self._known, self.seed)
        self.parity.methods = {row.name: ParityCounts() for row in self.methods}
        self._deaf: set[str] = set()  # paths to engines whose handlers have not learnt that a stream was left

    def round(self, number: int) -> None:
        """Call every method once in a random order: even rounds with valid requests, odd ones with corrupted ones.

        The first round also makes every wrong call there is.
        """
        for request in self._beginning():
            self._make(request)
        self._random.shuffle(self.methods)
        for row in self.methods:
            requests = [self._request(row, number)]
            others = {**WRONG_CALLS, **(READS if row.effect is Effect.READ else {})} if number == 0 else {}
            if number % _ROUNDS_PER_WATCH == 0 and row in OF_STATES:
                others["while the world moves"] = watched(StepRequest(actions=[0.1] * self._known.action_size))
            requests += [_Request(row, row.request(), what, how, is_misuse=True) for what, how in others.items()]
            for request in requests:
                self._make(request)
            if self._random.randrange(_CALLS_PER_STEP) == 0:
                self._make(_Request(_STEP, self._requests.valid(_STEP).message))

    def _beginning(self) -> Iterator[_Request]:
        """Yield the calls with which a round begins."""
        known = self._known
        yield _Request(_PLAY, _PLAY.request())
        yield _Request(_RESET, _RESET.request())
        if known.lidar.found:
            yield _Request(_LIDAR, SetLidarLiveRequest(True))
        if known.robots and known.slots and known.descriptors:
            robot, slot = EntityId(known.robots[0]), known.slots[0]
            yield _Request(_POLICY, SetPolicyDescriptorRequest(robot, slot, known.descriptors[0]))
            yield _Request(_ACTIVE, SetPolicyActiveRequest(robot, slot, True))
            yield _Request(_STEP, StepRequest())

    def _request(self, row: Method, number: int) -> _Request:
        if number % 2 == 1:
            made = self._requests.corrupted(row)
            what = "unsendable" if made.is_unsendable else "corrupted"
            return _Request(row, made.message, what, needs_wire=made.is_unsendable)
        message, most = self._requests.valid(row).message, FEW_ITEMS if number else MOST_ITEMS
        if row.stream is not None and number == 0 and hasattr(message, "target_fps"):
            message = replace(message, target_fps=_FAST_HZ)
        if row.response is ImageFrame and row.stream is not None and self._random.random() < 0.5:
            return _Request(row, message, "valid, images not copied", partial(ask, most=most, copy_images=False))
        return _Request(row, message, ask=partial(ask, most=most))

    def _make(self, request: _Request) -> None:
        """Make one request everywhere and count how it was answered."""
        if self.parity.lost:
            return
        links = [link for link in self.links if not (request.needs_wire and link.path.transport == "inproc")]
        if len(links) < 2:
            return
        call = self.parity.calls
        answers = _ask_all(links, request, reverse=call % 2 == 1)
        endings = ["runs on" if self._runs_on(*pair) else "has ended" for pair in zip(links, answers, strict=True)]
        counts = self.parity.methods.setdefault(request.method.name, ParityCounts())
        asked = [
            self._compared(request, (links[0], link), (answers[0], one), (endings[0], end))
            for link, one, end in zip(links[1:], answers[1:], endings[1:], strict=True)
        ]
        for one in asked:
            is_wanted = request.method in self.methods or one.differs  # others only lead up to those
            if is_wanted and not (request.is_misuse or request.needs_wire):
                self.write(one.evidence)
        at = next((at for at, one in enumerate(asked) if one.differs), 0)
        counts.add(asked[at].evidence, is_refused=not accepts(answers[0]))
        if asked[at].differs and counts.first_difference is None:
            names = links[0].path.name, links[at + 1].path.name
            counts.first_difference = asked[at].located(call, request.what, names)
        for link, answer in zip(links, answers, strict=True):
            if answer.is_local:
                self.parity.lost = f"{link.path.name} was lost in call {call}, {request.method.name}: {answer.details}"

    def _runs_on(self, link: ConnectedEngine, answer: CallOutcome) -> bool:
        """True where the engine's handler does not end after its stream was left; each engine is asked until then."""
        name = link.path.name
        if not answer.is_left or name in self._deaf or self.logs[name].is_quiet(_NOTICE_S):
            return False
        self._deaf.add(name)
        return True

    def _compared(
        self,
        request: _Request,
        links: tuple[ConnectedEngine, ConnectedEngine],
        answers: tuple[CallOutcome, CallOutcome],
        endings: tuple[str, str],
    ) -> AskedCall:
        """Return what two answers show; endings: what the handlers do after their stream was left."""
        decision = Decision(answers[0].transport, answers[1].transport, PROOF)
        message = None if request.needs_wire else request.message
        evidence = compare(Comparison(request.method.name, decision, *answers, message), self.parity.rules, kind=PROOF)
        if evidence.verdict == EQUAL:
            if request.needs_wire and answers[1].items:
                found = Difference("code", "outcome", "answered", "answered, though no wire can carry the request")
                evidence = differing_at(found, evidence)
            elif endings[0] != endings[1]:
                found = Difference("cancel", "the engine's handler after the stream was left", *endings)
                evidence = differing_at(found, evidence)
        elif request.what in READS and any(_ended_by_itself(*one, request) for one in zip(links, answers, strict=True)):
            why = "it ended by itself before its deadline"
            evidence = replace(evidence, verdict=NOT_COMPARED, aspect="", where="", values={}, why=why)
        return AskedCall(request, evidence)


def _ended_by_itself(link: ConnectedEngine, answer: CallOutcome, request: _Request) -> bool:
    """True when an answer says nothing of the deadline of its read: it comes without one as well."""
    if answer.code in ("OK", Status.DEADLINE_EXCEEDED.name):
        return answer.code == "OK"
    again = ask(link.transport, request.method, request.message)
    return (again.code, again.details) == (answer.code, answer.details)


def _ask_all(links: Sequence[ConnectedEngine], request: _Request, *, reverse: bool) -> list[CallOutcome]:
    """Return every link's answer, in the order of the links. reverse: the last is asked first, which is fair to all.

    Streams are read side by side: that takes the time of one.
    """

    def answer(link: ConnectedEngine) -> CallOutcome:
        return request.ask(link.transport, request.method, request.message)

    if request.method.stream is not None:
        with ThreadPoolExecutor(len(links)) as pool:
            return list(pool.map(answer, links))
    answers = [answer(link) for link in (links[::-1] if reverse else links)]
    return answers[::-1] if reverse else answers
