"""The client's half, line by line, against a scripted engine: what it says, what it makes of what it hears."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport import errors
from lucky_transport.deadline import Deadline
from lucky_transport_pipe.experiment import ExperimentSession, Score, Started, StateUpdate
from lucky_transport_pipe.instance import Instance

Playing = Callable[..., Any]


def begin(instance: Any, engine: Any, sessions: int = 2, end: str = "\r\n") -> Any:
    """Return an experiment that the scripted engine has accepted."""
    with ThreadPoolExecutor(1) as pool:
        asked: Future[Any] = pool.submit(instance.experiment, "cart_pole", [{"WindSeed": n} for n in range(sessions)])
        assert engine.read() == "run cart_pole"
        engine.send("SUCCESS", end=end)
        lines = engine.read_until("END")
        assert lines == [*(f'{{"WindSeed":{n}}}' for n in range(sessions)), "END"]
        return asked.result()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_run_is_heard_with_either_line_end(playing: Playing, end: str) -> None:
    with playing() as (instance, engine):
        instance.set("slots", 4)
        assert engine.read_raw() == b"set slots 4\n"
        experiment = begin(instance, engine, end=end)
        engine.send("0", '0 {"PoleAngle":0.5}', "1", "1 12.5", end=end)
        assert [experiment.next() for _ in range(2)] == [Started(0), StateUpdate(0, {"PoleAngle": 0.5})]
        experiment.command(0, {"MoveRight": True})
        experiment.flush()
        assert engine.read() == '0 {"MoveRight":true}'
        engine.send("0 3", "END", end=end)
        assert list(experiment) == [Started(1), Score(1, 12.5), Score(0, 3.0)]
        assert experiment.final_scores() == [3.0, 12.5]


@pytest.mark.parametrize(
    ("text", "score"),
    [("12.5", 12.5), ("12,5", 12.5), ("-1E+10", -1e10), ("7", 7.0), ("Infinity", float("inf")), ("-∞", -float("inf"))],
)
def test_a_score_is_read_as_any_culture_writes_it(playing: Playing, text: str, score: float) -> None:
    with playing() as (instance, engine):
        experiment = begin(instance, engine, 1)
        engine.send("0", f"0 {text}", "END")
        assert experiment.play(lambda session, state: None) == [score]


def test_an_unknown_experiment_raises_and_the_next_one_runs(playing: Playing) -> None:
    with playing() as (instance, engine):
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(instance.experiment, "crawl", [])
            assert engine.read() == "run crawl"
            engine.send('Error: Experiment name "crawl" was not recognized.')
            with pytest.raises(errors.UnknownName, match="not recognized"):
                asked.result()
        begin(instance, engine)


@pytest.mark.parametrize("answer", ["SUCCESS", 'Error: Experiment name "crawl" was not recognized.', "SUCCESS, Error"])
def test_a_run_whose_answer_came_too_late_is_ended_before_the_next_one(playing: Playing, answer: str) -> None:
    with playing() as (instance, engine):
        for _ in range(2):  # as long as the engine is silent
            with pytest.raises(errors.PeerTimeout, match="sent nothing within"):
                instance._conversation.start("crawl", Deadline(0.05))  # pyright: ignore[reportPrivateUsage]
        assert engine.read() == "run crawl"
        with ThreadPoolExecutor(1) as pool:
            asked: Future[Any] = pool.submit(instance.experiment, "cart_pole", [{"WindSeed": 1}])
            engine.send(answer.partition(",")[0])
            if answer.startswith("SUCCESS"):
                assert engine.read() == "END"
                engine.send("END" if answer == "SUCCESS" else "Error: a map without sessions")
            assert engine.read() == "run cart_pole"
            engine.send("SUCCESS")
            assert engine.read_until("END") == ['{"WindSeed":1}', "END"]
            experiment = asked.result()
        engine.send("0", "0 5", "END")
        assert experiment.play(lambda session, state: None) == [5.0]


def test_an_error_ends_the_run_for_every_thread_that_waits_and_the_next_one_runs(playing: Playing) -> None:
    with playing() as (instance, engine), ThreadPoolExecutor(2) as pool:
        experiment = begin(instance, engine)
        waiting = [pool.submit(experiment.session(number).state) for number in range(2)]
        engine.send("Error: out of data")
        for one in waiting:
            with pytest.raises(errors.EngineFailed, match="reports: out of data"):
                one.result()
        begin(instance, engine)


def test_warnings_are_kept_and_logged_and_disturb_nothing(playing: Playing, caplog: pytest.LogCaptureFixture) -> None:
    with playing() as (instance, engine):
        experiment = begin(instance, engine, 1)
        engine.send("Warning:mind the gap", "0", "0 1", "Warning: again", "END")
        assert list(experiment) == [Started(0), Score(0, 1.0)]
        assert instance.warnings == ("mind the gap", "again")
        assert "mind the gap" in caplog.text


@pytest.mark.parametrize("line", [b"what?", b"5 {}", b"SUCCESS", b"-1 {}", b'0 {"a":', b"\xff\xfe"])
def test_what_no_honest_engine_says_is_an_error(playing: Playing, line: bytes) -> None:
    with playing() as (instance, engine):
        experiment = begin(instance, engine)
        engine.connection.sendall(line + b"\r\n")
        with pytest.raises(errors.RemoteProtocolError, match="UTF-8" if b"\xff" in line else None):
            experiment.next()


def test_a_silent_engine_is_waited_for_until_the_deadline_and_can_be_waited_for_again(playing: Playing) -> None:
    with playing() as (instance, engine):
        experiment = begin(instance, engine)
        with pytest.raises(errors.PeerTimeout, match=r"0\.05 s"):
            experiment.next(timeout_s=0.05)
        engine.send("0")
        assert experiment.next() == Started(0)


@pytest.mark.parametrize(("last", "why"), [([], "closed the pipe or ended"), (["QUIT"], "has quit")])
def test_an_engine_that_leaves_ends_every_wait_after_what_it_said(playing: Playing, last: list[str], why: str) -> None:
    with playing() as (instance, engine):
        experiment = begin(instance, engine)
        engine.send("0", "0 1", *last)
        engine.close()
        assert [experiment.next() for _ in range(2)] == [Started(0), Score(0, 1.0)]
        for _ in range(2):
            with pytest.raises(errors.PeerDied, match=why):
                experiment.next()
        with pytest.raises(errors.PeerDied):
            instance.experiment("cart_pole", [])


@pytest.mark.parametrize("answer", ["QUIT", ""])
def test_quit_waits_for_the_engines_word_or_its_end(playing: Playing, answer: str) -> None:
    with playing() as (instance, engine), ThreadPoolExecutor(1) as pool:
        quitting = pool.submit(instance.quit)
        assert engine.read() == "quit"
        assert not quitting.done()
        with pytest.raises(errors.ClosedError, match="told to quit"):
            instance.experiment("cart_pole", [])
        engine.send(answer) if answer else engine.close()
        quitting.result()
        with pytest.raises(
            errors.ClosedError if answer else errors.PeerDied, match=None if answer else "closed the pipe or ended"
        ):
            instance.experiment("cart_pole", [])


def test_closing_ends_a_wait_of_another_thread(playing: Playing) -> None:
    with playing() as (instance, engine), ThreadPoolExecutor(1) as pool:
        experiment = begin(instance, engine)
        waiting = pool.submit(experiment.next)
        assert not waiting.done()
        instance.close()
        with pytest.raises(errors.ClosedError):
            waiting.result()


def test_each_session_may_have_a_thread_of_its_own(playing: Playing) -> None:
    """The lines of a session that no thread takes hold up no other."""
    with playing() as (instance, engine), ThreadPoolExecutor(3) as pool:
        experiment = begin(instance, engine, 3)

        def play(session: ExperimentSession) -> list[Any]:
            seen: list[Any] = []
            while (state := session.state()) is not None:
                seen.append(state["n"])
                session.command({"n": state["n"]})
            return seen

        engine.send("0", "1", "2", *['2 {"n":9}'] * 5)
        players = [pool.submit(play, experiment.session(number)) for number in range(2)]
        for n in range(20):
            for number in (1, 0):
                engine.send(f'{number} {{"n":{n}}}')
            assert sorted(engine.read() for _ in range(2)) == [f'{number} {{"n":{n}}}' for number in range(2)]
        engine.send("0 1", "1 2", "2 3", "END")
        assert [player.result() for player in players] == [list(range(20))] * 2
        assert [experiment.session(2).state()["n"] for _ in range(5)] == [9] * 5
        with pytest.raises(errors.ConfigError, match="session 3: this run has 0 to 2"):
            experiment.session(3)


def test_a_second_run_needs_the_first_ones_end(playing: Playing) -> None:
    with playing() as (instance, engine):
        begin(instance, engine)
        with pytest.raises(
            errors.LocalProtocolError, match="run is not possible in state 'running an experiment'; possible"
        ):
            instance.experiment("cart_pole", [])


def test_wrong_init_data_is_refused_before_anything_is_sent(playing: Playing) -> None:
    with playing() as (instance, engine):
        for wrong in ("{", {"Angle": float("nan")}, {"Angle": object()}):
            with pytest.raises((ValueError, TypeError)):
                instance.experiment("cart_pole", [{}, wrong])
        with pytest.raises(errors.ConfigError, match="no name of an experiment"):
            instance.experiment("cart pole", [])
        with pytest.raises(errors.ConfigError, match="a setting is one line"):
            instance.set("x", "1\n2")
        instance.set("x", 1)
        assert engine.read() == "set x 1"


def test_a_pipe_that_has_a_client_is_busy(playing: Playing) -> None:
    with playing() as (instance, _), pytest.raises(errors.Busy, match="has a client already, pid"):
        Instance(instance.name, connect_timeout_s=0.1)


def test_a_client_without_an_engine_is_not_reachable(name: str) -> None:
    with pytest.raises(errors.NotReachable, match=r"no engine came to pipe .* within 0\.05 s"):
        Instance(name, connect_timeout_s=0.05)
