"""The front door: settings decide the transport, and every contradiction is refused in words."""

import functools
import inspect
import logging
import pickle
import re
import textwrap
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

import lucky_transport
from lucky_transport import api, chosen
from lucky_transport.config import Settings
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ConfigError, NotReachable, SpecError, UnknownName
from lucky_transport.handler_options import is_inline
from lucky_transport.hookspecs import TransportInfo
from lucky_transport.registry import Registry, registry
from lucky_transport.testing.stepping_contract import DialEngine


def test_every_public_name_of_the_package_exists() -> None:
    assert [name for name in lucky_transport.__all__ if not hasattr(lucky_transport, name)] == []


def test_make_starts_an_engine_of_its_own_and_ends_it_with_the_env() -> None:
    with api.make("toy", 3, transport="inproc", shm_name="of_its_own") as env:
        assert env.num_envs == 3
        api.open_transport("inproc://of_its_own").close()
    with pytest.raises(NotReachable):
        api.open_transport("inproc://of_its_own")


def test_one_env_asked_for_means_all_there_are_and_others_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "lucky_transport"),
        api.serve("toy", "inproc://many", num_envs=4) as serving,
    ):
        with api.make("toy", 1, endpoint="inproc://many") as env:
            assert env.num_envs == 4
        with pytest.raises(SpecError, match="num_envs 3 asked for, the engine at inproc://many has 4; pass num_envs=4"):
            api.make("toy", 3, endpoint="inproc://many")
        assert serving.host.driver == ""
    assert "num_envs: the engine at inproc://many has 4" in caplog.text


def test_engine_options_and_seed_reach_the_engine() -> None:
    def start(options: dict[str, int], **arguments: Any) -> bytes:
        with api.make("toy", transport="inproc", options={"obs_size": 3} | options, **arguments) as env:
            return env.reset()[0].tobytes()

    assert len(start({})) == 12
    assert start({}, seed=5) == start({"seed": 5}) != start({}, seed=6)


CONTRADICTION = (
    "^transport 'grpc' .argument. and endpoint 'shm://x' .argument. contradict each other: "
    "shm: is served by 'shm'; drop one of them"
)

#: What is called, and the words of its refusal.
REFUSALS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "make nothing": (api.make, ConfigError, r"needs an engine or an endpoint; pass make\('toy'\) or make\(endpoint="),
    "connect to nothing": (
        api.connect,
        ConfigError,
        r"no endpoint to connect to; pass connect\('shm://name'\) or set LUCKY_END",
    ),
    "an endpoint as engine": (
        lambda: api.make("shm://name"),
        ConfigError,
        r"'shm://name' is an endpoint, .* pass make\(endpoint='shm://name'\)",
    ),
    "no such transport": (
        lambda: api.make("toy", transport="grcp"),
        UnknownName,
        "^argument: no transport 'grcp'; did you mean 'grpc'",
    ),
    "no such scheme": (lambda: api.make(endpoint="http://x"), UnknownName, "no endpoint scheme 'http'"),
    "no such setting": (
        lambda: api.make("toy", num_env=3),
        ConfigError,
        r"argument: unknown setting 'num_env'; did you mean 'num_envs'\?",
    ),
    "nobody there": (lambda: api.make(endpoint="inproc://nobody"), NotReachable, "no engine at inproc://nobody"),
    "make a contradiction": (
        lambda: api.make("toy", transport="grpc", endpoint="shm://x"),
        ConfigError,
        CONTRADICTION,
    ),
    "connect to one": (lambda: api.connect(transport="grpc", endpoint="shm://x"), ConfigError, CONTRADICTION),
    **{
        f"{name} over {transport}": (
            lambda name=name, transport=transport: api.make(name, transport=transport),
            UnknownName,
            f"no engine '{name}'; did you mean '{meant}'",
        )
        for transport in ("inproc", "shm")
        for name, meant in (
            ("tyo", "toy"),
            *((one, f"gymnasium:{one}") for one in ("CartPole-v1", "tank:Tank-v0", "my_envs/Tank-v12")),
        )
    },
}


@pytest.mark.parametrize(("call", "kind", "text"), REFUSALS.values(), ids=list(REFUSALS))
def test_what_cannot_be_made_is_refused_with_the_remedy(
    call: Callable[[], object], kind: type[Exception], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text):
        call()


def _only(monkeypatch: pytest.MonkeyPatch, **targets: str) -> None:
    """Let the registry hold transports "name" whose client is the given target."""
    found = Registry(engines=registry().engines)
    for name, target in targets.items():
        found.transports[name] = TransportInfo(
            name, (name,), target, "lucky_transport.inproc:server", "", f"inproc://{name}_{{name}}", extra=name
        )
    monkeypatch.setattr(chosen, "registry", lambda: found)


def test_auto_takes_the_best_and_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
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


def test_an_env_from_an_endpoint_returns_to_it_when_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    with api.serve("toy", "inproc://pickled", num_envs=2):
        monkeypatch.setenv("LUCKY_ENDPOINT", "inproc://pickled")
        with api.make("toy", copy=False) as env:
            text = pickle.dumps(env)
        monkeypatch.delenv("LUCKY_ENDPOINT")
        with pickle.loads(text) as again:
            assert again.num_envs == 2
            assert not again.reset()[0].flags.writeable


def test_a_wrong_transport_is_named_with_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUCKY_TRANSPORT", "smh")
    for attempt in (lambda: api.make("toy"), lambda: api.connect("shm://lucky_absent")):
        with pytest.raises(UnknownName) as refused:
            attempt()
        text = "environment variable LUCKY_TRANSPORT: no transport 'smh'; did you mean 'shm'? known: grpc, "
        assert str(refused.value).startswith(text)
        assert str(refused.value).endswith(", or auto")


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


class Greeter:
    @lucky_transport.inline
    def fast(self, request: Any, context: Any) -> Any:
        return request

    def slow(self, request: Any, context: Any) -> Any:
        return request


def test_the_mark_is_seen_through_methods_partials_and_wrappers() -> None:
    greeter = Greeter()

    @functools.wraps(greeter.fast)
    def wrapper(request: Any, context: Any) -> Any:
        return greeter.fast(request, context)

    for found in (Greeter.fast, greeter.fast, functools.partial(greeter.fast, b""), wrapper):
        assert is_inline(found)
    assert not is_inline(greeter.slow)
    assert not is_inline(functools.partial(greeter.slow, b""))


def test_a_method_is_marked_on_its_function() -> None:
    class Other(Greeter):
        def late(self, request: Any, context: Any) -> Any:
            return request

    assert lucky_transport.inline(late := Other().late) is late
    assert is_inline(Other().late)
    lucky_transport.inline(functools.partial(Other().slow, b""))
    assert is_inline(Other.slow)


def test_what_cannot_carry_a_mark_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be marked inline"):
        lucky_transport.inline(len)
    assert not is_inline(len)


@pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}])
def test_an_option_that_cannot_go_to_another_process_is_refused_by_name(value: object) -> None:
    with pytest.raises(SpecError, match=r"option odd=.* of engine 'toy' cannot go to a process of its own.*inproc"):
        api.make("toy", transport="shm", options={"odd": value})


@pytest.mark.parametrize("engine", [ToyEngine, ["toy"], 3, ToyEngine(1)])
def test_what_is_no_name_of_an_engine_is_refused_with_what_is(engine: Any) -> None:
    with pytest.raises(ConfigError, match=r"^make\(\): engine = .*: expected a name such as 'toy'.*serve\(engine, "):
        api.make(engine)
    with pytest.raises(ConfigError, match=r"^make_engine\(\): engine = "):
        api.make_engine(engine)
    if not isinstance(engine, ToyEngine):
        with pytest.raises(ConfigError, match=r"^serve\(\): engine = "):
            api.serve(engine, "inproc:")
