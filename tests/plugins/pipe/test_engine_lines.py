"""The engine's half, line by line, against a client of a few plain lines: what it says, and that it is never deaf."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lucky_transport.engines.cartpole import CartPoleWorlds
from lucky_transport.errors import Unimplemented
from lucky_transport.sessions.batch import WorldsEngine

INIT = '{"WindSeed":1,"InitialAngle":0.01}'
#: A start from which the pole falls within a dozen pushes to one side.
PUSH = '{"MoveRight":true}'
Serving = Callable[..., Any]
Offering = Callable[[], Any]


def run_session(client: Any, session: int = 0) -> list[str]:
    """Push one way until the session has its score; return the engine's lines of it."""
    lines: list[str] = []
    while True:
        lines.append(client.read())
        number, _, rest = lines[-1].partition(" ")
        assert number == str(session), lines[-1]
        if rest.startswith("{"):
            client.send(f"{session} {PUSH}")
        elif rest:
            return lines


def start(client: Any, *inits: str) -> None:
    client.send("run cart_pole")
    assert client.read() == "SUCCESS"
    client.send(*inits, "END")


def talk(client: Any, dialogue: Iterable[str]) -> None:
    """Send what follows "> "; each other line begins as the engine's next one does, "=..." is the whole of it."""
    for line in dialogue:
        if line.startswith("> "):
            client.send(line[2:])
            continue
        heard = client.read()
        assert heard == line[1:] if line.startswith("=") else heard.startswith(line), (heard, line)


def run(*inits: str) -> list[str]:
    """Return the dialogue that starts a run of these sessions, up to their first states."""
    numbers = range(len(inits))
    return [*opened(*inits), *(f"={each}" for each in numbers), *(f"{each} {{" for each in numbers)]


def opened(*inits: str) -> list[str]:
    return ["> run cart_pole", "=SUCCESS", *(f"> {each}" for each in inits), "> END"]


def push(*sessions: int) -> list[str]:
    return [f"> {each} {PUSH}" for each in sessions]


_OVER_LINES = ["{", '"InitialAngle": 0.02', "}" + INIT]
_REFUSED = "Error: session 1 could not be started: "
#: What a line amid a run is warned of.
_NONSENSE = {
    f"7 {PUSH}": "session 7 is none of this run",
    '0 {"MoveRight":1}': "CartPoleCommand.MoveRight: expected True or False, got 1",
    "0 {": "is no JSON",
    "run cart_pole": "not possible while running",
    "END": "END is not possible while running",
    "nonsense": "not understood while running",
    "set gravity 1": "there is no setting 'gravity'",
    "set slots none": "not a number of sessions",
}
#: A dialogue, and the options of the endpoint.
_DIALOGUES: dict[str, tuple[dict[str, Any], list[str]]] = {
    **{
        f"a run of {name}": ({}, [f"> run {name}", "=SUCCESS"])
        for name in ("cart_pole", "cartpole", "CartPole", "flat")
    },
    "an unknown experiment": (
        {},
        ["> run crawl", f"> {INIT}", "> END", '=Error: Experiment name "crawl" was not recognized.', *run(INIT)],
    ),
    "no sessions": ({}, [*opened(), "=END"] * 2),
    **{
        f"init data in {how}": ({}, [*opened(*lines), "=0", "=1", "0 {", "1 {"])
        for how, lines in {
            "one line": [INIT + INIT],
            "two lines": [INIT, INIT],
            "a line with a comma": [INIT + " , " + INIT],
            "lines of one object": _OVER_LINES,
        }.items()
    },
    **{
        f"broken init data, {broken}": (
            {},
            [*opened(INIT, broken, INIT), "Error: init data of session 1", *run(INIT)],
        )
        for broken in ('{"InitialAngle":}', "}", "{", "[1]", '{"a":"}"', INIT + " what", "0.5")
    },
    **{
        f"a world that refuses {init}": ({}, [*opened(INIT, init), "=0", _REFUSED + why, *run(INIT)])
        for init, why in {
            '{"Gravity":1}': "SpecError: option gravity=1",
            '{"WindSeed":-1}': "ValueError: WindSeed is -1",
            '{"WindSeed":1,"Seed":2}': "ValueError: WindSeed and Seed: a world has one seed",
            # The world got the whole object, with the braces in its text, and knows no such option.
            '{"Note":"a } and a { and \\" too","InitialAngle":0.01}': "SpecError: option note=",
        }.items()
    },
    "commands in any order": ({}, [*run(INIT, INIT, INIT), *push(2, 0, 1), "0 {", "1 {", "2 {"]),
    # Two for session 0 in front of the first for session 1: the original stands still at this.
    "early commands": ({}, [*run(INIT, INIT), *push(0, 0, 1), "0 {", "1 {", *push(1), "0 {", "1 {"]),
    "a command without a run": ({}, [*push(0), "=Warning: a command for session 0 while idle; it is dropped"]),
    "quit amid a run": ({}, [*run(INIT), "> quit", "=QUIT", "="]),
    "a session without a command": (
        {"timeout_s": 1.0, "stepping": "barrier"},
        [*run(INIT, INIT), *push(0), "=Warning: session 1 got no command within 1 s and ends", "=1 0.0", "0 {"],
    ),
    # Everything before the nonsense was read, and nothing was stepped.
    "a barrier": (
        {"stepping": "barrier"},
        [*run(INIT, INIT), *push(0), "> 0 {}", "> nonsense", "Warning:", *push(1), "0 {", "1 {"],
    ),
    # At the end it waits for a command of session 0.
    "independent sessions": (
        {"stepping": "independent"},
        [
            *run('{"MaxTicks":2}', '{"MaxTicks":1}'),
            *[*push(0), "0 {", *push(1), "1 1.0", "> pause", "Warning: 'pause'"],
        ],
    ),
    # Session 1 waits for the slot.
    "a setting": ({}, ["> set slots 1", *opened(INIT, INIT), "=0", "0 {", "> nonsense", "Warning: 'nonsense'"]),
}


@pytest.mark.parametrize("name_of_dialogue", _DIALOGUES)
def test_a_client_is_answered_as_the_grammar_says(serving: Serving, offering: Offering, name_of_dialogue: str) -> None:
    options, dialogue = _DIALOGUES[name_of_dialogue]
    with serving(**options), offering() as client:
        talk(client, dialogue)


@pytest.mark.parametrize("line", _NONSENSE)
def test_a_line_that_makes_no_sense_is_warned_of_and_the_run_goes_on(
    serving: Serving, offering: Offering, line: str
) -> None:
    with serving(), offering() as client:
        talk(client, [*run(INIT), f"> {line}"])
        warning = client.read()
        assert warning.startswith("Warning: ")
        assert _NONSENSE[line] in warning
        talk(client, push(0))
        lines = run_session(client)
        assert all(each.startswith("0 {") for each in lines[:-1])
        assert float(lines[-1].split(" ")[1]) == len(lines) - 1
        assert client.read() == "END"


def test_lines_end_with_crlf_and_a_state_is_one_word_with_the_seeds_keys(serving: Serving, offering: Offering) -> None:
    with serving(), offering() as client:
        client.send("run cart_pole")
        assert client.read_raw() == b"SUCCESS\r\n"
        client.send(INIT, "END")
        assert client.read_raw() == b"0\r\n"
        line = client.read_raw()
        assert line.endswith(b"}\r\n")
        number, state = line.decode().rstrip().split(" ")
        assert number == "0"
        assert json.loads(state) == {
            "CartPosition": 0.0,
            "CartVelocity": 0.0,
            "PoleAngle": 0.01,
            "PoleAngularVelocity": 0.0,
            "Score": 0.0,
        }


def test_an_engine_without_worlds_is_not_served(serving: Serving) -> None:
    with pytest.raises(Unimplemented, match=r"engine 'toy' has no worlds .* serve it at shm://"):
        serving("toy")


def test_commands_for_a_session_that_waits_for_a_slot_are_kept(serving: Serving, offering: Offering) -> None:
    with serving(slots=1), offering() as client:
        start(client, INIT, INIT)
        client.send(*[f"1 {PUSH}"] * 50)
        run_session(client)
        assert client.read() == "1"
        lines = client.read_until("END")
        *_, score, warning, _ = lines
        assert float(score.split(" ")[1]) > 0  # it went through by the commands that were there before it
        assert warning.startswith("Warning: session 1 has ended; ")


def test_the_next_client_is_served_after_one_that_quit_broke_the_rules_or_just_left(
    serving: Serving, offering: Offering
) -> None:
    with serving():
        for last in (b"quit\n", b"\xff\xfe\n", b"Error: enough\n", b""):
            with offering() as client:
                start(client, INIT)
                assert client.read() == "0"
                client.connection.sendall(last)


def test_a_warning_of_the_clients_is_logged(
    serving: Serving, offering: Offering, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(), offering() as client:
        client.send("Warning: mind the gap", "run cart_pole")
        assert client.read() == "SUCCESS"
        assert "mind the gap" in caplog.text


def heads(client: Any, count: int) -> list[str]:
    """Return what the next lines are: "0" a start notice, "0 {" a state, "0 #" a score."""
    parts = [client.read().partition(" ") for _ in range(count)]
    return [f"{head} {'{' if rest[0] == '{' else '#'}" if rest else head for head, _, rest in parts]


@pytest.mark.parametrize("stepping", ["independent", "barrier"])
def test_all_scores_of_a_step_come_before_all_start_notices_and_these_before_all_states(
    serving: Serving, offering: Offering, stepping: str
) -> None:
    with serving(slots=3, stepping=stepping), offering() as client:
        short, long = '{"MaxTicks":1}', '{"MaxTicks":2}'
        start(client, long, short, short, short, long)
        assert heads(client, 6) == ["0", "1", "2", "0 {", "1 {", "2 {"]
        client.send(f"2 {PUSH}\n0 {PUSH}\n1 {PUSH}")  # in one piece, so it is one step with either stepping
        step = heads(client, 7)
        assert sorted(step[:2]) == ["1 #", "2 #"]
        assert step[2:4] == ["3", "4"]
        assert sorted(step[4:]) == ["0 {", "3 {", "4 {"]
        client.send(f"0 {PUSH}\n3 {PUSH}\n4 {PUSH}")
        step = heads(client, 3)
        assert sorted(step[:2]) == ["0 #", "3 #"]
        assert step[2] == "4 {"


@pytest.mark.parametrize("stepping", ["independent", "barrier"])
def test_sessions_that_are_over_at_once_make_room_before_any_state_is_shown(
    serving: Serving, offering: Offering, stepping: str
) -> None:
    class Worlds(CartPoleWorlds):
        def create(self, map_name: str, seed: int | None, options: Any) -> Any:
            world = super().create(map_name, seed, options)
            world.is_over = seed == 7
            return world

    over = '{"WindSeed":7}'
    with serving(WorldsEngine(Worlds(), "cartpole"), slots=2, stepping=stepping), offering() as client:
        start(client, INIT, over, over, INIT)
        assert heads(client, 8) == ["0", "1", "1 #", "2", "2 #", "3", "0 {", "3 {"]


def send_apart(client: Any, lines: Iterable[str]) -> list[str]:
    """Send each line after the engine has read the one before it; return what the engine says meanwhile."""
    said: list[str] = []
    for line in lines:
        client.send(line, "pause")
        while not (heard := client.read()).startswith("Warning: 'pause'"):
            said.append(heard)
    return said


@pytest.mark.parametrize(
    ("rules", "states_only"),
    [({}, True), ({"stepping": "barrier"}, True), ({"stepping": "independent"}, False)],
    ids=["default", "barrier", "independent"],
)
def test_a_program_that_answers_all_sessions_at_once_is_never_held_up(
    serving: Serving, offering: Offering, rules: dict[str, str], states_only: bool
) -> None:
    """It answers when each session that has started and not ended has shown a state, from the lines alone.

    states_only: it looks at state lines only, and its commands arrive one by one.
    """
    with serving(slots=3, **rules), offering() as client:
        start(client, *(f'{{"MaxTicks":{1 + number % 4}}}' for number in range(9)))
        running: set[int] = set()
        asking: set[int] = set()
        said: list[str] = []
        scores = 0
        while (line := said.pop(0) if said else client.read()) != "END":
            number, _, rest = line.partition(" ")
            if not rest:
                running.add(int(number))
            elif rest.startswith("{"):
                asking.add(int(number))
            else:
                running.remove(int(number))
                scores += 1
            if running and running == asking and (rest.startswith("{") or not states_only):
                said += send_apart(client, [f"{each} {PUSH}" for each in sorted(asking)])
                asking.clear()
        assert scores == 9
