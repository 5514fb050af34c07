"""Matches: the life of a game from the launch of its engine to the clean-up, whatever goes wrong."""

import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

from lucky_transport.config import Settings
from lucky_transport.errors import LocalProtocolError, NotReachable, PeerDied, PeerTimeout
from lucky_transport_openra.game_process import GameLaunch
from lucky_transport_openra.lifecycle import MatchStage
from lucky_transport_openra.match import Match, MatchOptions
from lucky_transport_openra.skirmish.messages import Command, Order, Orders
from tests.plugins.openra.conftest import Serve
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S, until

SURRENDER = Orders([Command(Order.SURRENDER)])
DEPLOY = Orders([Command(Order.DEPLOY)])
LAUNCHED = [MatchStage.LAUNCHING, MatchStage.LOADING, MatchStage.CONNECTING, MatchStage.STREAMING, MatchStage.PLAYING]
QUICK = MatchOptions(map_name="arena", bots="none", retries=40, retry_s=0.05)

#: Stands in for `dotnet OpenRA.dll`: it understands the arguments that matter and serves skirmishes where it is told.
ENGINE = """#!{python}
import os, sys, time
from lucky_transport import api
given = dict(argument.split("=", 1) for argument in sys.argv[1:])
if "Launch.Replay" in given:
    sys.exit(0 if given["Launch.Replay"] == "good.orarep" else "no such replay: " + given["Launch.Replay"])
if given["Game.Mod"] == "broken":
    sys.exit("the mod is broken")
assert given["Game.Platform"] == "Null" and given["Engine.EngineDir"] == os.getcwd()
assert given.get("Launch.MultiSession", os.environ["RL_GRPC_PORT"]) == os.environ["RL_GRPC_PORT"]
with api.serve("skirmish", "openra://127.0.0.1:" + os.environ["RL_GRPC_PORT"] + "?map=arena&bots=none&rate=200"):
    time.sleep(60)
"""


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., GameLaunch]:
    """Describe how to launch the stand-in for the real engine."""
    program = tmp_path / "engine"
    program.write_text(ENGINE.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    port = free_port()
    return lambda **options: GameLaunch(str(tmp_path), port, command=[str(program)], **options)


@pytest.fixture
def match() -> Iterator[Callable[..., Match]]:
    """Open a match; it is closed when the test ends."""
    opened: list[Match] = []

    def start(where: Any, options: MatchOptions = QUICK) -> Match:
        opened.append(Match(where, options, Settings(command_timeout_s=20.0, start_timeout_s=PATIENCE_S)))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


# command lines


def test_the_command_line_is_the_real_engines() -> None:
    many = GameLaunch("/opt/openra", 9901, records_replays=True, arguments={"Server.Seed": "7"})
    assert many.command_line() == [
        *("dotnet", "/opt/openra/bin/OpenRA.dll", "Engine.EngineDir=/opt/openra", "Game.Mod=ra", "Game.Platform=Null"),
        *("Launch.MultiSession=9901", "Server.RecordReplays=True", "Server.Seed=7"),
    ]
    assert many.environ()["RL_GRPC_PORT"] == "9901"
    one = GameLaunch("/opt/openra", is_multi_session=False, map_name="singles.oramap", bots="Multi1:rl-agent")
    assert one.command_line()[-2:] == ["Launch.Map=singles.oramap", "Launch.Bots=Multi1:rl-agent"]
    shown = GameLaunch("/opt/openra", replay="game.orarep").command_line()
    assert shown[-1] == "Launch.Replay=game.orarep"


# lives


def test_a_match_launches_its_engine_and_cleans_up(launch: Any, match: Any) -> None:
    played = match(launch())
    seen = played.reset(seed=3)
    assert (seen.ticks, played.past[1:]) == (1, LAUNCHED)
    pid = played.pid
    assert len(played.step(DEPLOY, 5).observation.buildings) == 1
    assert played.step(SURRENDER).result == "lose"
    assert played.stage is MatchStage.GAME_OVER
    with pytest.raises(LocalProtocolError, match="act is not possible in state 'game over'; possible: end"):
        played.step()
    played.reset()
    assert played.past[-3:] == [MatchStage.CONNECTING, MatchStage.STREAMING, MatchStage.PLAYING]
    assert played.pid == pid
    played.close()
    assert played.stage is MatchStage.IDLE
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_an_engine_that_dies_is_a_lost_connection_and_is_started_again(launch: Any, match: Any) -> None:
    played = match(launch())
    played.reset()
    first = played.pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(PeerDied, match="the engine process ended with signal SIGKILL"):
        played.step(ticks=5)
    assert played.past[-3:] == [MatchStage.CONN_LOST, MatchStage.CLEANUP, MatchStage.IDLE]
    assert played.reset().ticks == 1
    assert played.pid not in (0, first)


def test_an_engine_that_fails_again_and_again_is_given_up_with_its_exit_report(launch: Any, match: Any) -> None:
    played = match(launch(mod="broken"))
    for _ in range(3):
        with pytest.raises(PeerDied, match="the mod is broken"):
            played.reset()
        assert played.past[-3:] == [MatchStage.CONN_LOST, MatchStage.CLEANUP, MatchStage.IDLE]
    with pytest.raises(NotReachable, match="failed 3 times in a row, last with exit status 1"):
        played.reset()
    assert played.stage is MatchStage.IDLE


def test_an_engine_that_never_answers_is_a_timeout(match: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = MatchOptions(retries=2, retry_s=0.01)
        played = Match(f"openra://127.0.0.1:{silent.getsockname()[1]}", options, Settings(command_timeout_s=0.1))
        with pytest.raises(PeerTimeout, match="was not ready after 2 looks"):
            played.reset()
    assert played.past[1:] == [MatchStage.CONNECTING, MatchStage.TIMEOUT, MatchStage.CLEANUP, MatchStage.IDLE]


def test_a_program_that_is_not_there_is_not_reachable(match: Any, tmp_path: Path) -> None:
    played = match(GameLaunch(str(tmp_path), 9, command=[str(tmp_path / "missing")]))
    with pytest.raises(NotReachable, match=r"cannot be started|is taken"):
        played.reset()
    assert played.stage is MatchStage.IDLE


def test_a_port_that_somebody_else_has_is_told(launch: Any, match: Any) -> None:
    described = launch()
    with (
        socket.create_server(("127.0.0.1", described.port)),
        pytest.raises(NotReachable, match="is taken"),
    ):
        match(described).reset()


def test_a_match_plays_on_an_engine_that_runs_already(serve: Serve, match: Any) -> None:
    played = match(str(serve().endpoints[0]))
    first = played.reset(seed=5)
    assert played.past[1:] == [MatchStage.CONNECTING, MatchStage.STREAMING, MatchStage.PLAYING]
    assert played.reset(seed=5).observation == first.observation
    assert played.step(ticks=400, interrupts=["exploration_milestone"]).ticks <= 401


def test_a_planned_game_stands_still_until_the_first_orders(serve: Serve, match: Any) -> None:
    options = MatchOptions(map_name="arena", plans=True, is_streamed=True)
    played = match(str(serve(rate=200, planning=1).endpoints[0]), options)
    assert played.reset().ticks == 0
    assert played.stage is MatchStage.PLANNING
    assert played.step(DEPLOY, 3).ticks >= 3
    assert played.stage is MatchStage.PLAYING


def test_the_older_generations_game_is_streamed(serve: Serve, match: Any) -> None:
    played = match(str(serve(rate=200).endpoints[0]), MatchOptions(is_streamed=True))
    begun = played.reset().ticks  # the game goes on by itself
    seen = played.step(DEPLOY, 10)
    assert seen.ticks >= begun + 10
    assert seen.ticks_done >= 10
    assert len(seen.observation.buildings) == 1
    while not seen.is_over:
        seen = played.step(SURRENDER)
    assert (seen.result, played.stage) == ("lose", MatchStage.GAME_OVER)
    assert played.reset().ticks < seen.ticks


def test_a_replay_is_shown_to_its_end(launch: Any, match: Any) -> None:
    played = match(launch())
    played.show_replay("good.orarep", 20.0)
    replay = [
        MatchStage.LOADING_REPLAY,
        MatchStage.REPLAYING,
        MatchStage.REPLAY_ENDED,
        MatchStage.CLEANUP,
        MatchStage.IDLE,
    ]
    assert played.past[1:] == replay
    with pytest.raises(PeerDied, match=r"no such replay: bad\.orarep"):
        played.show_replay("bad.orarep", 20.0)
    assert played.past[-3:] == [MatchStage.CONN_LOST, MatchStage.CLEANUP, MatchStage.IDLE]


def test_a_replay_needs_an_engine_of_ones_own(match: Any) -> None:
    with pytest.raises(NotReachable, match="pass a GameLaunch"):
        match("openra://127.0.0.1:1").show_replay("good.orarep")
