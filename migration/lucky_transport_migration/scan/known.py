"""What the names of gRPC's world stand for, and the traces that they leave in a file.

A name is qualified as Python resolves it ("grpc.aio.server"), whatever a file calls it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache

from lucky_transport.other_grpc import OTHER_STACKS

#: The port at which LuckyEngine and gRPC's own examples listen.
PORT = 50051

#: Top-level packages that are gRPC, or are of no use without it.
_MODULES = {
    *("aiogrpc", "grpc", "grpc_admin", "grpc_channelz", "grpc_csds", "grpc_gcp", "grpc_health", "grpc_interceptor"),
    *("grpc_observability", "grpc_reflection", "grpc_requests", "grpc_status", "grpc_testing", "grpc_tools"),
    *("grpcalchemy", "py_grpc_prometheus", "pytest_grpc"),
}
_MODULE = re.compile(r"(opentelemetry\.(instrumentation|exporter\.otlp\.proto)|tritonclient)\.grpc(\.|$)")

#: Modules that speak gRPC without grpcio, or are of no use without such a one.
_OTHER_STACK = re.compile(rf"({'|'.join(map(re.escape, OTHER_STACKS))})(?=\.|$)")

#: Our drop-ins: over shared memory, yet their classes are gRPC's.
DROP_INS = "lucky_transport_stubs"

LUCKYROBOTS = "luckyrobots"

#: Classes of it that open a channel.
LUCKYROBOTS_CLASSES = {"LuckyEnv", "PolicyEnv", "LuckyEngineClient", "Session", "AsyncSession"}

CHANNELS = {
    "grpc.insecure_channel",
    "grpc.secure_channel",
    "grpc.intercept_channel",
    "grpc.aio.insecure_channel",
    "grpc.aio.secure_channel",
    "grpclib.client.Channel",
    f"{DROP_INS}.channel",
    f"{DROP_INS}.aio_channel",
}
SERVERS = {
    "grpc.server",
    "grpc.aio.server",
    "grpclib.server.Server",
    f"{DROP_INS}.server",
    f"{DROP_INS}.aio_server",
}

#: Methods of a server, known by name wherever the server came from.
PORT_BINDERS = {"add_insecure_port", "add_secure_port"}

#: What classes of a program derive from, by the end that they are of.
BASES = re.compile(
    r"grpc\.(aio\.)?(?P<servicer>(Generic|Service)RpcHandler|RpcMethodHandler)|"
    r"grpc\.(aio\.)?(?P<interceptor>\w*(Server|Client)Interceptor)|"
    r"grpc\.(aio\.)?(?P<server>Server|ServicerContext)|"
    r"grpc\.(aio\.)?(?P<channel>Channel|\w*MultiCallable|\w*Call|AuthMetadataPlugin)"
)

_STUB_MODULE = re.compile(r"(^|\.)\w*_pb2_grpc(\.|$)")
_METHOD_PATH = re.compile(rb"[\"']/([\w.]+)/\w+[\"']")
_DISTRIBUTION = re.compile(
    r"((types|python3?|py3)-)?grpcio(-.+)?|(.+-)?grpc-.+|.+-grpc|aiogrpc|djangogrpcframework|grpcalchemy|grpclib|"
    r"betterproto2?(-.+)?|(protoc-gen-)?connec(t-python|trpc|py)|purerpc|sonora"
)


def is_grpc_module(name: str) -> bool:
    """True for a module of gRPC itself or of what is built upon it, by its absolute name."""
    return name.partition(".")[0] in _MODULES or bool(_MODULE.match(name) or other_stack(name))


def other_stack(name: str) -> str:
    """Return the module that a name is of, if it speaks gRPC without grpcio: "grpclib.client" -> "grpclib"; else ""."""
    match = _OTHER_STACK.match(name)
    return match[1] if match else ""


def is_stub_module(name: str) -> bool:
    """True for generated stubs and servicers: "helloworld_pb2_grpc", "demo.protos.echo_pb2_grpc.EchoStub"."""
    return bool(_STUB_MODULE.search(name))


def is_grpc_distribution(name: str) -> bool:
    """True for what installs gRPC, by its normalised name ("grpcio-tools")."""
    return bool(_DISTRIBUTION.fullmatch(name))


def luckyrobots_class(qualified: str) -> str | None:
    """Return what luckyrobots calls it: "luckyrobots.lucky_env.LuckyEnv" -> "LuckyEnv"; None for what is not its."""
    package, _, rest = qualified.partition(".")
    return rest.rpartition(".")[2] if package == LUCKYROBOTS and rest else None


@cache
def _services() -> dict[str, str]:
    """Return the services of which each method is a typed call, their full names by their short ones."""
    from lucky_transport.client.service import SERVICES

    names = {method.service for methods in SERVICES.values() for method in methods.values()}
    return {name.rpartition(".")[2]: name for name in names}


def service_of(symbol: str, foreign: Collection[str] = ()) -> str | None:
    """Return which service with typed calls a stub is for: "scene_pb2_grpc.SceneServiceStub" -> "SceneService".

    None for one of another service. foreign: short names that stand for other services in this code base.
    """
    name = symbol.rpartition(".")[2].removesuffix("Stub")
    return name if name in _services() and name not in foreign and not is_grpc_module(symbol) else None


def foreign_services(stubs: Iterable[bytes]) -> frozenset[str]:
    """Return the short names that generated stubs give to services of others, and to none of the engine's."""
    found = {match[1].decode() for text in stubs for match in _METHOD_PATH.finditer(text)}
    ours = {name.rpartition(".")[2] for name in found if name in _services().values()}
    return frozenset({name.rpartition(".")[2] for name in found} & set(_services()) - ours)


# -- traces: each kind of finding needs one of these words. Names of gRPC's modules, distributions, generators, settings
# and endpoints contain "grpc"; its customary port counts as digits; packages that speak gRPC without its name,
# servicers and stubs that a package exports again, and ports that are bound, count by their own names.

_WORDS = "|".join(
    (
        *("grpc", LUCKYROBOTS, DROP_INS, r"lucky[-_.]+transport\s*\[", "5_?0_?0_?5_?1", "staged"),
        *("servicer", "stub", "add_(in)?secure_port"),
        *("betterproto", "connec(py|trpc)", r"connect[-_.]+python", "purerpc", r"pyarrow[\s\S]*flight", "sonora"),
    )
)
_IN_BYTES = re.compile(_WORDS.encode(), re.IGNORECASE)
_IN_TEXT = re.compile(_WORDS, re.IGNORECASE)

#: A letter or digit of ASCII that JSON or TOML spells as an escape.
_ESCAPED = re.compile(rb"\\(u00|U000000)[3-7]")
_CODING = re.compile(rb"coding[:=][ \t]*([-\w.]+)")
#: Encodings of Python source in which ASCII is ASCII, as files name them.
_ASCII_COMPATIBLE = re.compile(rb"(?i)utf[-_]?8|ascii|latin[-_]?1|iso[-_]?8859|cp125|windows-125|euc|gb|koi8")


def may_mention(source: bytes) -> bool:
    """True when a file of this content may hold something of gRPC; false proves that it does not."""
    if _IN_BYTES.search(source) or _ESCAPED.search(source):
        return True
    codings = [name for line in source.split(b"\n", 2)[:2] for name in _CODING.findall(line)]
    if not all(map(_ASCII_COMPATIBLE.match, codings)):
        return True
    if source.isascii():
        return False
    # Python reads identifiers in their compatibility form: a full-width "grpc" is grpc.
    return bool(_IN_TEXT.search(unicodedata.normalize("NFKC", source.decode("utf-8", "replace"))))
