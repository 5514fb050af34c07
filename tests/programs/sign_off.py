"""What `signoff` says of a program, on evidence of its own calls and of drawn ones.

The client's calls are recorded over TCP. `parity` makes them at two fresh servers, one on a port and one in shared
memory, so that a server which differs from itself is told from a transport, and draws others for each method that was
called. `replay` makes the recorded ones at one more server in shared memory, and compares with what was answered then.
The evidence is what `parity` saw, or what `replay` did where `parity` cannot run the server.
"""

from __future__ import annotations

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
from lucky_transport.messages.names import short_name
from lucky_transport_migration.bounds import error_of_look, needed_trials
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.parity.recorded_requests import RecordedRequest
from lucky_transport_migration.recording.asking import requests_of
from lucky_transport_migration.recording.entries import RecordedCall, Recording
from lucky_transport_migration.stages.effective_stages import STEP
from tests.programs.programs import Program
from tests.programs.sides import SIDE, ProgramFailed, clean_environment, record_program, served_in_shm

#: Of the values of a field that are recorded, as `parity --value` takes them.
_MOST_VALUES = 5
_LONGEST = 200

#: How long a command may take; evidence holds what it compared until then.
_LIMIT_S = 150.0
_END_S = 30.0

#: How many calls are drawn for each that the gate asks for: small messages repeat, and a repeat counts once.
_SPARE = 2

#: What a command printed as JSON, or why it printed none, and what runs one, see `_command`.
_Outcome = tuple[dict[str, Any], str]
_Run = Callable[..., _Outcome]

_AGAIN = "Made again at a server on a port and at one in shared memory"
_REPLAYED = "Replayed in shared memory, against the recorded answers"

#: Services of the cases: a program that calls others is asked by these what its server saw.
_OF_CASES = "/lab."

_UNDESCRIBED = "no module that the client imports describes its service"


@dataclass(slots=True)
class SignOff:
    """said: what was compared and what was not, a sentence each. result: what `signoff --json` printed; empty where
    nothing could be recorded.
    """

    said: list[str] = field(default_factory=list[str])
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def methods(self) -> Sequence[Mapping[str, Any]]:
        """What `signoff` says of each method."""
        return self.result.get("methods", ())

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
    compare = _compare_engine if program.engine else _compare_server
    done = SignOff(compare(program, python, folder, recordings, partial(run, evidence=evidence)))
    done.said += [f"Not compared: {name}, {why}." for name, why in program.skip.items()]
    done.result, why = run("signoff", evidence, "--report", folder / "report")
    if why:
        raise ProgramFailed(f"signoff: {why}")
    if itself := ", ".join(map(short_name, done.result["itself"])):
        done.said.append(f"The server differs from itself, asked the same on two ports, in {itself}.")
    return done


def _compare_server(
    program: Program, python: str, folder: Path, recordings: Sequence[Recording], run: _Run
) -> list[str]:
    """Compare the calls at a server of the program's own, and drawn ones; return what came of it."""
    recorded = list(map(requests_of, recordings))
    calls: dict[str, list[RecordedRequest]] = {}
    for entry in (entry for one in recorded for entry in one.entries):
        calls.setdefault(entry.method, []).append(entry)
    calls = {name: entries for name, entries in calls.items() if not name.startswith(_OF_CASES)} or calls
    described = list(dict.fromkeys(content for one in recorded for content in one.described))
    parity = partial(run, "parity", "--server", shlex.join([python, str(SIDE), program.case, "served", "{port}"]))
    said = [_recorded({name: len(entries) for name, entries in calls.items()})]
    again, replayed = list[_Outcome](), list[_Outcome]()
    for one in recorded:
        again += [parity("--from", one.source)] if described else []
        is_evidence = not again or bool(again[-1][1])
        with served_in_shm(program, python) as endpoint:
            replayed.append(run("replay", one.source, endpoint, **({} if is_evidence else {"evidence": None})))
    said += [_sum(_AGAIN, again)] if again else []
    said.append(_sum(_REPLAYED, replayed))
    if not described:
        return [*said, f"No call was drawn, and bytes were compared, in which maps have no order: {_UNDESCRIBED}."]
    return said + _draw(calls, described, folder, parity)


def _compare_engine(
    program: Program, python: str, folder: Path, recordings: Sequence[Recording], run: _Run
) -> list[str]:
    """Compare the calls at an engine of this project, and drawn ones and steps; return what came of it."""
    entries = (entry for one in recordings for entry in one.entries())
    calls = Counter(entry.call for entry in entries if isinstance(entry, RecordedCall))
    replayed = list[_Outcome]()
    for one in recordings:
        with served_in_shm(program, python) as endpoint:
            replayed.append(run("replay", one.path, endpoint))
    said = [_recorded(calls), _sum(_REPLAYED, replayed)]
    count = _count(folder, len(calls))
    said.append(f"Drawn: up to {count:,} calls of each method, and as many steps.")
    for name in calls:
        how = ["--suite", "step", "--steps", count] if name == STEP else ["--method", name, "--count", count]
        if why := run("parity", program.engine, *how)[1]:
            said.append(f"Drawing for {short_name(name)} ended early: {why}.")
    return said


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
    differences = (one["first_difference"] for one in found if "compared" in one)
    if first := next(filter(None, differences), None):
        parts.append(f"the first that differs is {short_name(first['method'])}, in {first['where']}")
    parts += dict.fromkeys(why for _, why in outcomes if why)
    return f"{'; '.join(parts)}."


def _draw(
    calls: Mapping[str, Sequence[RecordedRequest]],
    described: Sequence[bytes],
    folder: Path,
    parity: _Run,
) -> list[str]:
    """Draw calls of each method, at fresh servers; return what came of it, and where it cannot be."""
    count = _count(folder, len(calls))
    options: list[object] = ["--requests", count]
    methods: dict[str, ServiceMethod] = {}
    for number, content in enumerate(described):
        file = folder / f"{number}.binpb"
        file.write_bytes(content)
        options += ["--descriptor-set", file]
        methods |= {one.name: one for one in methods_in(content, str(file))}
    said = [f"Drawn: up to {count:,} calls of each method."]
    for name, entries in calls.items():
        if name not in methods:
            said.append(f"No call of {short_name(name)} was drawn: {_UNDESCRIBED}.")
            continue
        requests = [methods[name].request.FromString(request) for one in entries for request in one.requests]
        values = [word for value in field_values(requests) for word in ("--value", value)]
        if why := parity(*options, "--method", name, *values)[1]:
            said.append(f"Drawing for {short_name(name)} ended early: {why}.")
    return said


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
