"""The front door: settings decide the transport, and every contradiction is refused in words."""

from __future__ import annotations

import inspect
import logging
import pickle
import re
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_transport
from lucky_transport import api, chosen
from lucky_transport.config import Settings
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ConfigError, NotReachable, SpecError, UnknownName
from lucky_transport.hookspecs import TransportInfo
from lucky_transport.registry import Registry, registry
from lucky_transport.testing.dial import DialEngine
from tests.support.waiting import PATIENCE_S


def test_the_package_offers_its_front_door() -> None:
    assert lucky_transport.make is api.make
    assert lucky_transport.connect is api.connect
    assert lucky_transport.serve is api.serve
    with pytest.raises(AttributeError, match="no attribute 'mak'"):
        _ = lucky_transport.mak


def test_every_public_name_of_the_package_exists() -> None:
    assert [name for name in lucky_transport.__all__ if not hasattr(lucky_transport, name)] == []


def test_make_starts_an_engine_of_its_own_and_ends_it_with_the_env() -> None:
    with api.make("toy", 3, transport="inproc", shm_name="of_its_own") as env:
        assert env.num_envs == 3
        api.open_transport("inproc://of_its_own").close()
    with pytest.raises(NotReachable):
        api.open_transport("inproc://of_its_own")


@pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}])
def test_an_option_that_cannot_go_to_another_process_is_refused_by_name(value: object) -> None:
    with pytest.raises(SpecError, match=r"option odd=.* of engine 'toy' cannot go to a process of its own.*inproc"):
        api.make("toy", transport="shm", options={"odd": value})


def test_make_connects_where_an_endpoint_is_given() -> None:
    with api.serve("toy", "inproc://given", num_envs=4) as serving, api.make(endpoint="inproc://given") as env:
        assert env.num_envs == 4
        env.reset()
        env.close()
        assert serving.host.driver == ""


def test_the_environment_decides_where_the_program_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_TRANSPORT", "inproc")
    with api.make("toy") as env:
        assert env.transport.name == "inproc"
    monkeypatch.setenv("LUCKY_ENDPOINT", "inproc://from_environment")
    with api.serve("toy", "inproc://from_environment", num_envs=2), api.make("toy") as env:
        assert env.num_envs == 2


def test_a_single_env_asked_for_means_as_many_as_there_are(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "lucky_transport"),
        api.serve("toy", "inproc://many", num_envs=4),
        api.make("toy", 1, endpoint="inproc://many") as env,
    ):
        assert env.num_envs == 4
    assert "num_envs: the engine at inproc://many has 4" in caplog.text


def test_any_other_number_of_envs_is_refused_with_both_numbers() -> None:
    with (
        api.serve("toy", "inproc://four", num_envs=4) as serving,
        pytest.raises(SpecError, match=r"num_envs 3 asked for, the engine at inproc://four has 4; pass num_envs=4, or"),
    ):
        api.make("toy", 3, endpoint="inproc://four")
    assert serving.host.driver == ""


def test_engine_options_and_seed_reach_the_engine() -> None:
    def start(**arguments: object) -> bytes:
        with api.make("toy", transport="inproc", options={"obs_size": 3}, **arguments) as env:  # pyright: ignore[reportArgumentType]
            return env.reset()[0].tobytes()

    assert len(start()) == 12
    assert start(seed=5) == start(seed=5) != start(seed=6)


def test_a_seed_among_the_options_counts_too() -> None:
    with (
        api.make("toy", transport="inproc", options={"seed": 9}) as a,
        api.make("toy", transport="inproc", seed=9) as b,
    ):
        assert a.reset()[0].tobytes() == b.reset()[0].tobytes()


def test_make_without_engine_and_endpoint_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs an engine or an endpoint; pass make\('toy'\) or make\(endpoint="):
        api.make()


def test_an_endpoint_in_the_place_of_an_engine_is_named_with_the_keyword() -> None:
    with pytest.raises(ConfigError, match=r"'shm://name' is an endpoint, .* pass make\(endpoint='shm://name'\)"):
        api.make("shm://name")


@pytest.mark.parametrize("transport", ["inproc", "shm"])
def test_an_unknown_engine_fails_here_and_not_in_a_child_process(transport: str) -> None:
    with pytest.raises(UnknownName, match="no engine 'tyo'; did you mean 'toy'"):
        api.make("tyo", transport=transport)


@pytest.mark.parametrize("transport", ["inproc", "shm"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "tank:Tank-v0", "my_envs/Tank-v12"])
def test_an_id_of_gymnasium_is_answered_with_its_engine(transport: str, env_id: str) -> None:
    with pytest.raises(UnknownName, match=f"no engine '{env_id}'; did you mean 'gymnasium:{env_id}'"):
        api.make(env_id, transport=transport)


def test_unknown_transports_schemes_and_settings_are_refused_by_name() -> None:
    with pytest.raises(UnknownName, match="no transport 'shn'; did you mean 'shm'"):
        api.make("toy", transport="shn")
    with pytest.raises(UnknownName, match="no endpoint scheme 'http'"):
        api.make(endpoint="http://x")
    with pytest.raises(ConfigError, match="argument: unknown setting 'num_env'"):
        api.make("toy", num_env=3)


@pytest.mark.parametrize("opener", [lambda **s: api.make("toy", **s), lambda **s: api.connect(**s)])
def test_a_transport_and_an_endpoint_of_another_contradict_each_other(opener: object) -> None:
    with pytest.raises(ConfigError) as refused:
        opener(transport="grpc", endpoint="shm://x")  # pyright: ignore[reportCallIssue]
    assert str(refused.value) == (
        "transport 'grpc' (argument) and endpoint 'shm://x' (argument) contradict each other: "
        "shm: is served by 'shm'; drop one of them"
    )


def test_nobody_at_the_endpoint_is_said_at_once() -> None:
    with pytest.raises(NotReachable, match="no engine at inproc://nobody"):
        api.make(endpoint="inproc://nobody")


def test_connect_needs_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no endpoint to connect to; pass connect\('shm://name'\) or set LUCKY_END"):
        api.connect()


def _only(monkeypatch: pytest.MonkeyPatch, **targets: str) -> None:
    """Let the registry hold transports "name" whose client is the given target."""
    found = Registry(engines=registry().engines)
    for name, target in targets.items():
        found.transports[name] = TransportInfo(
            name, (name,), target, "lucky_transport.inproc:server", "", f"inproc://{name}_{{name}}", extra=name
        )
    monkeypatch.setattr(chosen, "registry", lambda: found)


def test_auto_takes_the_best_that_loads_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _only(monkeypatch, shm="lucky_transport.inproc:connect", grpc="lucky_transport.inproc:connect")
    taken: list[str] = []

    def start(engine: str, endpoints: list[str], **rest: object) -> object:
        taken.append(endpoints[0].partition("_")[0])
        raise NotReachable("far enough")

    monkeypatch.setattr(api, "EngineProcess", start)
    with caplog.at_level(logging.INFO, "lucky_transport"), pytest.raises(NotReachable):
        api.make("toy")
    assert taken == ["inproc://shm"]
    assert [record.getMessage() for record in caplog.records] == ["transport auto: took shm, the fastest there is"]


def test_auto_never_falls_back_in_silence(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    _only(monkeypatch, shm="a_package_nobody_has:client", inproc="lucky_transport.inproc:connect")
    with api.make("toy") as env:
        assert env.transport.name == "inproc"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "took inproc; not shm (transport 'shm' failed to load" in record.getMessage()
    assert "grpc (no transport 'grpc'" in record.getMessage()


def test_auto_with_nothing_to_take_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch)
    with pytest.raises(UnknownName, match="no transport can be used; run `lucky-transport doctor`"):
        api.make("toy")


def test_a_transport_that_cannot_start_an_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry(transports={"far": TransportInfo("far", ("far",), "x:y", "x:y", "")})
    monkeypatch.setattr(chosen, "registry", lambda: found)
    with pytest.raises(ConfigError, match="transport 'far' cannot start an engine by itself; start one and pass its"):
        api.make("toy", transport="far")


def test_serve_takes_several_endpoints_and_an_engine_object() -> None:
    with api.serve(DialEngine(2), ["inproc://one", "inproc:two"]) as serving:
        assert [str(endpoint) for endpoint in serving.endpoints] == ["inproc://one", "inproc://two"]
        with api.open_transport("inproc://two") as client:
            assert client.spec.engine == "dial"


def test_a_failed_start_stops_what_was_started_before() -> None:
    with api.serve("toy", "inproc://taken"), pytest.raises(NotReachable, match="taken"):
        api.serve("toy", ["inproc://first", "inproc://taken"])
    with api.serve("toy", "inproc://first"):
        pass


def test_an_env_from_an_endpoint_returns_to_it_when_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    with api.serve("toy", "inproc://pickled", num_envs=2):
        monkeypatch.setenv("LUCKY_ENDPOINT", "inproc://pickled")
        with api.make("toy", copy=False) as env:
            text = pickle.dumps(env)
        monkeypatch.delenv("LUCKY_ENDPOINT")
        with pickle.loads(text) as again:
            assert again.num_envs == 2
            assert not again.reset()[0].flags.writeable


def test_importing_the_package_and_asking_for_help_import_nothing_heavy() -> None:
    program = (
        "import sys; import lucky_transport\n"
        "from click.testing import CliRunner\n"
        "from lucky_transport.cli.main import cli\n"
        "result = CliRunner().invoke(cli, ['--help'])\n"
        "assert result.exit_code == 0 and 'serve' in result.output, result.output\n"
        "print(sorted({'numpy', 'gymnasium', 'grpc', 'mujoco', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_a_named_engine_is_made_in_this_process() -> None:
    engine = api.make_engine("toy", 2, seed=1, obs_size=3)
    assert engine.spec.observation_shape == (2, 3)
    assert np.dtype(engine.spec.observation.dtype) == np.float32


def test_a_wrong_transport_is_named_with_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUCKY_TRANSPORT", "smh")
    for attempt in (lambda: api.make("toy"), lambda: api.connect("shm://lucky_absent")):
        with pytest.raises(UnknownName) as refused:
            attempt()
        text = "environment variable LUCKY_TRANSPORT: no transport 'smh'; did you mean 'shm'? known: grpc, "
        assert str(refused.value).startswith(text)
        assert str(refused.value).endswith(", or auto")
    with pytest.raises(UnknownName, match=r"^argument: no transport 'grcp'; did you mean 'grpc'"):
        api.make("toy", transport="grcp")


@pytest.mark.parametrize("engine", [ToyEngine, ["toy"], 3, ToyEngine(1)])
def test_what_is_no_name_of_an_engine_is_refused_with_what_is(engine: Any) -> None:
    with pytest.raises(ConfigError, match=r"^make\(\): engine = .*: expected a name such as 'toy'.*serve\(engine, "):
        api.make(engine)
    with pytest.raises(ConfigError, match=r"^make_engine\(\): engine = "):
        api.make_engine(engine)
    if not isinstance(engine, ToyEngine):
        with pytest.raises(ConfigError, match=r"^serve\(\): engine = "):
            api.serve(engine, "inproc:")


def test_a_misspelt_argument_of_make_is_guessed() -> None:
    with pytest.raises(ConfigError, match=r"argument: unknown setting 'num_env'; did you mean 'num_envs'\?"):
        api.make("toy", num_env=4)


def test_the_documentation_of_make_lists_what_it_takes() -> None:
    text = inspect.getdoc(api.make) or ""
    for name in [*inspect.signature(api.make).parameters, *(one.name for one in fields(Settings))]:
        if name != "sources":
            assert re.search(rf"^ *(\w+, )*{name}\b", text, re.MULTILINE), name
    for mode in AutoresetMode:
        assert f'"{mode.value}"' in text


@pytest.mark.exhaustive
def test_the_example_of_make_runs() -> None:
    (example,) = re.findall(r"^( +with lucky_transport\.make.*?)\n\n", api.make.__doc__ or "", re.MULTILINE | re.DOTALL)
    namespace = {"lucky_transport": lucky_transport}
    exec(textwrap.dedent(example), namespace)
    assert namespace["observations"].shape == (4, 3)  # pyright: ignore[reportAttributeAccessIssue]
