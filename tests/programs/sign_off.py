"""What `signoff` says of a program, on evidence of its own calls and of drawn ones.

The client's calls are recorded over TCP. `parity` makes them at two fresh servers, one on a port and one in shared
memory, so that a server which differs from itself is told from a transport, and draws others for each method that was
called. `replay` makes the recorded ones at one more server in shared memory, and compares with what was answered then.
The evidence is what `parity` saw, or what `replay` did where `parity` cannot run the server.
"""

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lucky_transport.errors import plural
from lucky_transport.messages.method import short_name
from lucky_transport_migration.bounds import error_of_look, needed_trials
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.parity.service_requests import RecordedRequest
from lucky_transport_migration.recording.entries import RecordedCall, Recording
from lucky_transport_migration.recording.replay_call import requests_of
from lucky_transport_migration.stages.effective_stages import STEP
from tests.programs.programs import Program
from tests.programs.reasons import ITSELF, reasons
from tests.programs.sides import SIDE, ProgramFailed, clean_environment, record_program, served_in_shm

#: Of the values of a field that are recorded, as `parity --value` takes them.
_MOST_VALUES = 5
_LONGEST = 200

#: How long a command may take; evidence holds what it compared until then.
_LIMIT_S = 150.0
_END_S = 30.0

#: How many calls are drawn for each that the gate asks for: small messages repeat, and a repeat counts once; and how
#: often others are drawn where that was too few. The number of calls decides it, and never how they went.
_SPARE = 2
_ROUNDS = 3

#: How often two servers are compared where a replay differs: some differ from each other by chance, as in maps' order.
_TWINS = 4

#: What a command printed as JSON, or why it printed none, and what runs one, see `_command`.
_Outcome = tuple[dict[str, Any], str]
_Run = Callable[..., _Outcome]
_Calls = Mapping[str, Sequence[RecordedRequest]]
_Judge = Callable[[], Mapping[str, Any]]

_AGAIN = "Made again at a server on a port and at one in shared memory"
_REPLAYED = "Replayed in shared memory, against the recorded answers"

#: Services of the cases: a program that calls others is asked by these what its server saw.
_OF_CASES = "/lab."

_UNDESCRIBED = "no module that the client imports describes its service"
_ENDLESS = "a stream that does not end by itself"


@dataclass(slots=True)
class SignOff:
    """said: what was compared and what was not, a sentence each. properties: what of the program holds a method back.
    result: what `signoff --json` printed; empty where nothing could be recorded.
    """

    said: list[str] = field(default_factory=list[str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def methods(self) -> Sequence[Mapping[str, Any]]:
        """What `signoff` says of each method."""
        return self.result.get("methods", ())

    @property
    def reasons(self) -> list[str]:
        """Why it is not ready, a clause each."""
        return reasons(self.result, self.properties)

    @property
    def word(self) -> str:
        """READY, NOT READY or NOTHING SEEN."""
        return self.result.get("word", "NOTHING SEEN")


def sign_off(program: Program, python: str, folder: Path, limit_s: float = _LIMIT_S) -> SignOff:
    """Return what `signoff` says of the program; its files go into the folder, whose lucky_transport.toml counts.

    Raises ProgramFailed.
    """
    with (folder / "lucky_transport.toml").open("a") as rules:
        rules.write("[parity.fields]\n")
        rules.writelines(f"{json.dumps(one)} = {{ skip = {json.dumps(why)} }}\n" for one, why in program.skip.items())
    record_program(program, python, folder / "run.jsonl.gz")
    files = map(Recording, sorted(folder.glob("run*.jsonl.gz")))
    recordings = [one for one in files if next(one.entries(), None) is not None]  # a process may make no call
    if not recordings:
        return SignOff(["No call was recorded: the client makes none through a channel of Python's grpc."])
    evidence, run = folder / "evidence", partial(_command, folder, limit_s)
    run_for_evidence, done = partial(run, evidence=evidence), SignOff()

    def judge() -> Mapping[str, Any]:
        done.result, why = run("signoff", evidence, "--report", folder / "report")
        if why:
            raise ProgramFailed(f"signoff: {why}")
        return done.result

    if program.engine:
        _compare_engine(program, python, folder, recordings, run_for_evidence, done)
    else:
        _compare_server(program, python, folder, recordings, run_for_evidence, done, judge)
    done.said += [f"Not compared: {name}, {why}." for name, why in program.skip.items()]
    judge()
    if itself := ", ".join(map(short_name, done.result["itself"])):
        done.said.append(f"The server differs from itself, asked the same on two ports, in {itself}.")
    return done


def _compare_server(
    program: Program,
    python: str,
    folder: Path,
    recordings: Sequence[Recording],
    run: _Run,
    done: SignOff,
    judge: _Judge,
) -> None:
    """Compare the calls at a server of the program's own, and drawn ones; say what came of it."""
    recorded = list(map(requests_of, recordings))
    calls: dict[str, list[RecordedRequest]] = {}
    for entry in (entry for one in recorded for entry in one.entries):
        calls.setdefault(entry.method, []).append(entry)
    calls = {name: entries for name, entries in calls.items() if not name.startswith(_OF_CASES)} or calls
    described = list(dict.fromkeys(content for one in recorded for content in one.described))
    given = [word for pair in program.metadata.items() for word in ("--metadata", "=".join(pair))]
    server = shlex.join([python, str(SIDE), program.case, "served", "{port}"])
    parity = partial(run, "parity", "--server", server, *given)
    done.said.append(_recorded({name: len(entries) for name, entries in calls.items()}))
    again, replayed = list[_Outcome](), list[_Outcome]()
    for one in recorded:
        again += [parity("--from", one.source)] if described else []
        is_evidence = not again or bool(again[-1][1])
        with served_in_shm(program, python) as endpoint:
            kept = {} if is_evidence else {"evidence": None}
            replayed.append(run("replay", one.source, endpoint, *given, **kept))
        bad = _differing(replayed[-1][0]) if is_evidence else set[str]()
        for _ in range(_TWINS):
            if bad - done.properties.keys():
                with served_in_shm(program, python) as first, served_in_shm(program, python) as second:
                    twins, _ = run("replay", one.source, first, second, *given, evidence=None)
                pairs = twins.get("comparisons", [{}])  # the last is of both servers
                done.properties |= dict.fromkeys(_differing(pairs[-1]) & bad, ITSELF)
    done.said += [_sum(_AGAIN, again)] if again else []
    done.said.append(_sum(_REPLAYED, replayed))
    if described:
        _draw(calls, described, folder, parity, done, judge)
    else:
        done.said.append(f"No call was drawn, and bytes were compared, in which maps have no order: {_UNDESCRIBED}.")
        done.properties = {entry.method: _UNDESCRIBED for one in recorded for entry in one.entries} | done.properties


def _differing(found: Mapping[str, Any]) -> set[str]:
    return {name for name, row in found.get("methods", {}).items() if row["mismatches"]}


def _compare_engine(
    program: Program, python: str, folder: Path, recordings: Sequence[Recording], run: _Run, done: SignOff
) -> None:
    """Compare the calls at an engine of this project, and drawn ones and steps; say what came of it."""
    entries = (entry for one in recordings for entry in one.entries())
    calls = Counter(entry.call for entry in entries if isinstance(entry, RecordedCall))
    replayed = list[_Outcome]()
    for one in recordings:
        with served_in_shm(program, python) as endpoint:
            replayed.append(run("replay", one.path, endpoint))
    count = _count(folder, len(calls))
    done.said += [_recorded(calls), _sum(_REPLAYED, replayed)]
    done.said.append(f"Drawn: up to {count:,} calls of each method, and as many steps.")
    for name in calls:
        how = ["--suite", "step", "--steps", count] if name == STEP else ["--method", name, "--count", count]
        if why := run("parity", program.engine, *how)[1]:
            done.said.append(f"Drawing for {short_name(name)} ended early: {why}.")


def _recorded(calls: Mapping[str, int]) -> str:
    return f"Recorded over TCP: {plural(sum(calls.values()), 'call')} of {plural(len(calls), 'method')}."


def _count(folder: Path, methods: int) -> int:
    """Return how many calls of each method are drawn."""
    limits = Limits.load(folder)
    error = error_of_look((1 - limits.confidence) / methods, 1)
    return int(_SPARE * needed_trials(0, limits.mismatch_limit, 1 - error))


def _sum(what: str, outcomes: Sequence[_Outcome]) -> str:
    """Return what all recordings came to as one sentence."""
    found = [one for one, _ in outcomes if one]
    compared = sum(one.get("compared", one["calls"]) for one in found)
    bad = sum(row["mismatches"] for one in found for row in one["methods"].values())
    parts = [f"{what}: {compared - bad:,} of {plural(compared, 'compared call')} equal"]
    parts += dict.fromkeys(why for _, why in outcomes if why)
    return f"{'; '.join(parts)}."


def _draw(calls: _Calls, described: Sequence[bytes], folder: Path, parity: _Run, done: SignOff, judge: _Judge) -> None:
    """Draw calls of each method, at fresh servers; say what came of it, and where it cannot be."""
    count = _count(folder, len(calls))
    options: list[object] = ["--requests", count]
    methods: dict[str, ServiceMethod] = {}
    for number, content in enumerate(described):
        file = folder / f"{number}.binpb"
        file.write_bytes(content)
        options += ["--descriptor-set", file]
        methods |= {one.name: one for one in methods_in(content, str(file))}
    done.said.append(f"Drawn: up to {count:,} calls of each method, and where that is too few others.")
    done.properties |= {name: _UNDESCRIBED for name in calls if name not in methods}
    left = [name for name in calls if name in methods]
    for seed in range(_ROUNDS):
        for name in left:
            requests = [methods[name].request.FromString(request) for one in calls[name] for request in one.requests]
            values = [word for value in field_values(requests) for word in ("--value", value)]
            if why := parity(*options, "--method", name, "--seed", seed, *values)[1]:
                done.said.append(f"Drawing for {short_name(name)} ended early: {why}.")
                done.properties |= {name: _ENDLESS} if methods[name].stream else {}
        if not (left := _lacking(judge(), done.properties) if seed < _ROUNDS - 1 else []):
            break


def _lacking(result: Mapping[str, Any], properties: Mapping[str, str]) -> list[str]:
    """Return the methods of which other requests may be enough, whatever came of those that were compared."""
    passed_over = {*properties, *result["itself"]}
    rows = (one for one in result["methods"] if one["method"] not in passed_over and one["gate"])
    return [one["method"] for one in rows if not (one["gate"]["is_whole"] or one["mismatches"] + one["failures"])]


def _command(folder: Path, limit_s: float, *arguments: object, evidence: Path | None = None) -> _Outcome:
    """Return what a command of lucky-transport printed as JSON, and "", or why it printed none."""
    words = [sys.executable, "-m", "lucky_transport", *map(str, arguments), "--json"]
    words += ["--evidence", str(evidence)] if evidence else []
    with (
        (folder / "stderr").open("w+") as errors,
        subprocess.Popen(
            words, cwd=folder, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            out, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends its servers
            try:
                process.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
            return {}, f"not done within {limit_s:g} s"
        errors.seek(0)
        try:
            return json.loads(out), ""
        except ValueError:
            first = (errors.read().strip().splitlines() or [f"exit status {process.returncode}"])[0]
            return {}, first.removeprefix("Error: ").partition("; ")[0]  # without the hint, which has paths


def field_values(messages: Iterable[Any]) -> list[str]:
    """Return "package.Message.field=[...]" of each text, whole number and enum that is set in the messages."""
    found: dict[str, dict[Any, None]] = {}
    for message in messages:
        _add(message, found)
    return [f"{field}={json.dumps(list(values)[:_MOST_VALUES])}" for field, values in found.items()]


def _add(message: Any, found: dict[str, dict[Any, None]]) -> None:
    if message.DESCRIPTOR.full_name.startswith("google.protobuf."):  # drawn within what protobuf allows
        return
    for of, value in message.ListFields():
        kind = of.message_type
        if of.is_extension or (kind is not None and kind.GetOptions().map_entry):
            continue
        for one in [value] if isinstance(value, (str, bytes)) or not hasattr(value, "append") else value:
            if kind is not None:
                _add(one, found)
            elif type(one) in (str, int) and len(str(one)) <= _LONGEST:
                found.setdefault(f"{of.containing_type.full_name}.{of.name}", {})[one] = None
