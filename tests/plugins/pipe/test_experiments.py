"""Both ends together: experiments are what the same worlds do in process, in whatever number and order."""

import random
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from lucky_transport import api
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleState, CartPoleWorld, CartPoleWorlds
from lucky_transport.errors import EngineFailed, LocalProtocolError, PeerDied
from lucky_transport.process import unique_name
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport_pipe.experiment import Score, Started
from lucky_transport_pipe.instance import Instance
from lucky_transport_pipe.line_service import LineService
from lucky_transport_pipe.unity_instance import UnityInstance

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


def test_answers_may_go_out_in_any_order_and_one_session_ahead(serving: Serving, name: str) -> None:
    """The sequence A, A, B, which stops the original for a second each time."""
    generator = random.Random(0)
    with serving(slots=4), Instance(name) as instance:
        experiment = instance.experiment("cart_pole", map(init, range(4)), state=CartPoleState)
        ahead: set[int] = set()
        for states in experiment.in_step():
            for session in generator.sample(sorted(states), len(states)):
                if session in ahead:
                    ahead.remove(session)
                    continue
                experiment.command(session, CartPoleCommand(True))
                if generator.random() < 0.3:
                    experiment.command(session, CartPoleCommand(True))
                    ahead.add(session)
        assert all(score > 0 for score in experiment.final_scores())


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


class _Broken(CartPoleWorld):
    """Ends at its second tick. The member that it is told raises: `close` always, `score` at the end, `tick` and
    `observe` amid.
    """

    closed: ClassVar[list[int]] = []

    def __init__(self, seed: int | None, member: str) -> None:
        super().__init__(seed, max_ticks=2)
        self.number = seed or 0
        self._member = member

    def tick(self) -> Any:
        if self._member == "tick":
            raise ArithmeticError("the pole snapped")
        return super().tick()

    def observe(self) -> CartPoleState:
        return CartPoleState(pole_angle=float("nan")) if self._member == "observe" else super().observe()

    @property
    def score(self) -> float:
        if self.is_over and self._member == "score":
            raise OSError("score broke")
        return 1.0

    @score.setter
    def score(self, value: float) -> None:
        pass

    def close(self) -> None:
        self.closed.append(self.number)
        if self._member == "close":
            raise OSError("close broke")


class _BrokenWorlds(CartPoleWorlds):
    def create(self, map_name: str, seed: int | None, options: Any) -> Any:
        member = options.get("breaks", "")
        return _Broken(seed, member) if member else super().create(map_name, seed, options)


def _push(session: int, state: Any) -> Any:
    return {"MoveRight": True}


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("observe", "has no state to show: ValueError: CartPoleState is no JSON"),
        ("tick", "pole snapped"),
        ("score", "session 0 could not be ended: OSError: score broke"),
        ("close", "session 0 could not be ended: OSError: close broke"),
    ],
)
def test_a_world_that_fails_ends_the_run_with_its_error_and_the_next_run_works(
    serving: Serving, name: str, member: str, why: str
) -> None:
    with serving(WorldsEngine(_BrokenWorlds(), "cartpole")), Instance(name) as instance:
        experiment = instance.experiment("cart_pole", [{"Seed": 1, "Breaks": member}])
        with pytest.raises(EngineFailed, match=why):
            experiment.play(_push)
        with pytest.raises(LocalProtocolError, match=r"sessions \[0\] .* have not ended"):
            experiment.final_scores()
        assert instance.experiment("cart_pole", [{"MaxTicks": 2}]).play(_push) == [2.0]


def test_a_world_that_fails_as_its_client_leaves_keeps_no_other_from_being_closed(
    serving: Serving, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Broken, "closed", [])
    with serving(WorldsEngine(_BrokenWorlds(), "cartpole")):
        with Instance(name) as instance:
            experiment = instance.experiment("cart_pole", [{"Seed": n, "Breaks": "close"} for n in (1, 2, 3)])
            for states in experiment.in_step():
                if states[0]["CartVelocity"]:  # each has done a tick
                    break
                for session in states:
                    experiment.command(session, _push(session, None))
        with Instance(name) as instance:
            assert instance.experiment("cart_pole", [{"MaxTicks": 2}]).play(_push) == [2.0]
    assert sorted(_Broken.closed) == [1, 2, 3]


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
