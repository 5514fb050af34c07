"""Both ends together: experiments are what the same worlds do in process, in whatever number and order."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleState, CartPoleWorld, CartPoleWorlds
from lucky_transport.errors import EngineFailed, LocalProtocolError, PeerDied
from lucky_transport.process import unique_name
from lucky_transport_pipe.experiment import Score, Started
from lucky_transport_pipe.instance import Instance
from lucky_transport_pipe.line_service import LineService
from lucky_transport_pipe.unity_instance import UnityInstance
from tests.support.waiting import until

Serving = Callable[..., Any]
ENGINE = (sys.executable, "-m", "lucky_transport_pipe", "cartpole")


def init(number: int) -> dict[str, Any]:
    return {"WindSeed": number, "InitialAngle": 0.02 * (-1) ** number, "Wind": 3.0}


def decide(state: Any) -> bool:
    """A policy that falls after some dozen steps."""
    return state.pole_angle + 0.1 * state.cart_position > 0


def without_a_wire(number: int) -> tuple[list[CartPoleState], float]:
    """Return the states and the score of a session, from the world itself."""
    world = CartPoleWorlds().create("flat", number, {"initial_angle": 0.02 * (-1) ** number, "wind": 3.0})
    states: list[CartPoleState] = []
    while not world.is_over:
        states.append(world.observe())
        world.act([CartPoleCommand(decide(states[-1]))])
        world.tick()
    return states, world.score


@pytest.mark.parametrize("stepping", ["independent", "barrier"])
def test_every_state_and_score_is_what_the_world_says_bit_for_bit(serving: Serving, name: str, stepping: str) -> None:
    with serving(slots=3, stepping=stepping), Instance(name) as instance:
        experiment = instance.experiment("cart_pole", map(init, range(8)), state=CartPoleState)
        seen: dict[int, list[CartPoleState]] = {number: [] for number in range(8)}

        def policy(session: int, state: CartPoleState) -> CartPoleCommand:
            seen[session].append(state)
            return CartPoleCommand(decide(state))

        scores = experiment.play(policy)
        again = instance.experiment("cart_pole", map(init, range(8)), state=CartPoleState)
        assert again.play(lambda _, state: CartPoleCommand(decide(state))) == scores
    for number in range(8):
        states, score = without_a_wire(number)
        assert list(map(repr, seen[number])) == list(map(repr, states))  # repr tells 0.0 from -0.0
        assert scores[number] == score


def test_a_thousand_sessions_queue_for_sixteen_slots(serving: Serving, name: str) -> None:
    with serving(), Instance(name) as instance:
        experiment = instance.experiment("cart_pole", ({"InitialAngle": 0.18, "MaxTicks": 5} for _ in range(1200)))
        running: set[int] = set()
        most = 0
        for event in experiment:
            if isinstance(event, Started):
                running.add(event.session)
                most = max(most, len(running))
            elif isinstance(event, Score):
                running.remove(event.session)
            else:
                experiment.command(event.session, {"MoveRight": False})
        assert most == 16
        assert len(experiment.final_scores()) == 1200


def test_in_step_shows_every_session_that_runs(serving: Serving, name: str) -> None:
    with serving(slots=3, stepping="barrier"), Instance(name) as instance:
        experiment = instance.experiment("cart_pole", map(init, range(5)), state=CartPoleState)
        shown: list[set[int]] = []
        for states in experiment.in_step():
            shown.append(set(states))
            for session, state in states.items():
                experiment.command(session, CartPoleCommand(decide(state)))
        assert max(map(len, shown)) == 3
        assert set().union(*shown) == set(range(5))
        assert experiment.final_scores() == [without_a_wire(number)[1] for number in range(5)]


def test_several_engines_are_several_pipes() -> None:
    names = [unique_name() for _ in range(2)]
    with (
        api.serve("cartpole", f"pipe://{names[0]}"),
        api.serve("cartpole", f"pipe://{names[1]}"),
        Instance(names[0]) as first,
        Instance(names[1]) as second,
    ):
        experiments = [each.experiment("cart_pole", [init(3)], state=CartPoleState) for each in (second, first)]
        scores = [each.play(lambda _, state: CartPoleCommand(decide(state))) for each in experiments]
        assert scores == [[without_a_wire(3)[1]]] * 2


def _push(session: int, state: Any) -> Any:
    return {"MoveRight": True}


def _break(world: Any) -> Any:
    raise OSError("the pole snapped")


@pytest.mark.parametrize(
    ("member", "broken", "why"),
    [
        (
            "observe",
            lambda world: CartPoleState(pole_angle=float("nan")),
            "no state to show: ValueError: CartPoleState is",
        ),
        ("tick", _break, "pole snapped"),
        (
            "score",
            property(lambda world: _break(world) if world.is_over else 1.0, lambda world, value: None),
            "session 0 could not be ended: OSError: the pole snapped",
        ),
        ("close", _break, "session 0 could not be ended: OSError: the pole snapped"),
    ],
)
def test_a_world_that_fails_ends_the_run_with_its_error_and_the_next_run_works(
    serving: Serving, name: str, monkeypatch: pytest.MonkeyPatch, member: str, broken: Any, why: str
) -> None:
    with serving(), Instance(name) as instance:
        with monkeypatch.context() as breaks:
            breaks.setattr(CartPoleWorld, member, broken, raising=False)
            experiment = instance.experiment("cart_pole", [{"MaxTicks": 2}])
            with pytest.raises(EngineFailed, match=why):
                experiment.play(_push)
        with pytest.raises(LocalProtocolError, match=r"sessions \[0\] .* have not ended"):
            experiment.final_scores()
        assert instance.experiment("cart_pole", [{"MaxTicks": 2}]).play(_push) == [2.0]


def test_a_world_that_fails_as_its_client_leaves_keeps_no_other_from_being_closed(
    serving: Serving, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []
    monkeypatch.setattr(CartPoleWorld, "close", lambda world: (closed.append(world), _break(world)))
    with serving(), Instance(name) as instance:
        experiment = instance.experiment("cart_pole", [{}] * 3)
        for states in experiment.in_step():
            if states[0]["Score"]:  # each has done a tick
                break
            for session in states:
                experiment.command(session, _push(session, None))
        instance.close()
        until(lambda: len(closed) == 3)
        monkeypatch.undo()
        with Instance(name) as following:
            assert following.experiment("cart_pole", [{"MaxTicks": 2}]).play(_push) == [2.0]
    assert len({id(world) for world in closed}) == 3


def test_a_client_that_breaks_the_engines_end_loses_its_connection_and_the_next_one_is_served(
    serving: Serving, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_client = LineService.serve

    def broken(service: LineService) -> None:
        monkeypatch.setattr(LineService, "serve", serve_client)
        raise ArithmeticError("the engine's end broke")

    monkeypatch.setattr(LineService, "serve", broken)
    with serving():
        with Instance(name) as instance, pytest.raises(PeerDied):
            instance.experiment("cart_pole", [{}])
        with Instance(name) as instance:
            assert instance.experiment("cart_pole", [{"MaxTicks": 2}]).play(_push) == [2.0]


# -- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_an_engine_is_started_as_a_unity_build_and_ends_by_itself_when_told_to_quit(name: str) -> None:
    with Instance(name, ENGINE) as instance:
        process = instance._process  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        assert instance.experiment("cart_pole", [init(1)], state=CartPoleState).play(
            lambda _, state: CartPoleCommand(decide(state))
        ) == [without_a_wire(1)[1]]
        instance.quit()
        assert process._process.returncode == 0  # pyright: ignore[reportPrivateUsage]


@pytest.mark.exhaustive
def test_the_usual_program_for_unity_scenes_runs_as_it_stands(name: str) -> None:
    arguments = {"simulator_path": ENGINE[0], "simulator_args": [*ENGINE[1:], "-batchmode", "-nographics", "-p", name]}
    u_instance = UnityInstance(rf"\\.\pipe\{name}", arguments)
    population = [f'{{"WindSeed":{number},"InitialAngle":0.02,"MaxTicks":9}}' for number in range(20)]
    scores: list[float | None] = [None] * len(population)
    for _ in range(2):
        u_instance.run_experiment("cart_pole")
        u_instance.send_session_initialization_data(population)
        u_instance.end_send_initialization_data()
        while (line := u_instance.read_line()) is not None:
            words = line.split(" ")
            if len(words) > 1:
                try:
                    scores[int(words[0])] = float(words[1])
                except ValueError:
                    u_instance.write_line(f'{words[0]} {{"MoveRight":true}}')
                    u_instance.flush_pipe()
    u_instance.quit()
    u_instance.close_pipe()
    assert scores == [9.0] * 20
