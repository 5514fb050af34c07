"""The intended differences between ours and real gRPC, each with its reason; `plugins/lucky_transport_stubs/README.md`
shows the same table.

The table is exact. A difference that is not in it fails its case, and so does an entry that differs no more. Ours
behaves as the newest grpcio does, whichever is installed; where an older one did otherwise, the entry says up to which
version.
"""

from dataclasses import dataclass

import grpc

from .registry import Case

_INSTALLED = tuple(int(part) for part in grpc.__version__.split(".")[:2])


@dataclass(frozen=True)
class Difference:
    """In these cases these fields differ, where grpcio is older than `before`; a field is any part of its path."""

    cases: tuple[str, ...]
    fields: tuple[str, ...]
    grpc: str
    ours: str
    reason: str
    before: tuple[int, int] | None = None

    def is_about(self, case: Case) -> bool:
        """Return whether it concerns this case here: by its name with its parameters, or without them."""
        if self.before is not None and self.before <= _INSTALLED:
            return False
        return case.name in self.cases or case.name.partition("[")[0] in self.cases


DIFFERENCES = (
    Difference(
        cases=("outcomes.finds_no_server", "aio_outcomes.finds_no_server", "aio_calls.waiting_for_no_server"),
        fields=("details",),
        grpc="names the socket and the system's error",
        ours="names the engine and what to do",
        reason="there is no such socket; the code and the first words are gRPC's",
    ),
    Difference(
        cases=("service_config.is_no_json",),
        fields=("details",),
        grpc="names an index of its own parser",
        ours="names the index, or the key, of Python's",
        reason="the code and the first words are gRPC's",
    ),
    Difference(
        cases=tuple(
            f"{prefix}service_config.is_wrong[{what}]"
            for prefix in ("", "aio_")
            for what in (
                *("a timeout without its unit", "a timeout of letters", "a timeout too fine", "a timeout too long"),
                *("an empty policy", "no backoff", "an unknown code", "a code in numbers", "no tokens"),
            )
        ),
        fields=("details",),
        grpc="names every field that is wrong, and a time's fault by its kind",
        ours="names the first field that is wrong",
        reason="the code, the first words and what is refused are gRPC's",
    ),
    Difference(
        cases=("servers.an_address_is_taken",),
        fields=("classes",),
        grpc="takes the address of a living server, or shares it",
        ours="RuntimeError",
        reason="two engines of one name are a mistake that must not go unseen",
    ),
    Difference(
        cases=("responses.a_unary_response_is_no_bytes[text]",),
        fields=("code", "details"),
        grpc="never answers",
        ours='INTERNAL, "Failed to serialize response!"',
        reason="that is gRPC's status for a response that is no message; every wait is bounded",
    ),
    Difference(
        cases=("metadata.has_a_limit_of_its_own[20000]",),
        fields=("value", "raised"),
        grpc="the server's options raise the limit of 16,384 bytes",
        ours="the limit is fixed",
        reason="an envelope's head has to fit a ring, and the caller checks before it sends",
    ),
    Difference(
        cases=("requests.the_iterator_is_read_while_the_handler_is_busy",),
        fields=("all read",),
        grpc="reads ahead of the handler what its window holds",
        ours="reads the iterator once the handler reads",
        reason="all calls share a ring: a request travels when a handler will take it out",
    ),
    Difference(
        cases=("aio_metadata.is_invalid_on_the_client",),
        fields=("outcome",),
        grpc="grpc.aio.InternalError, and the call never ends",
        ours='AioRpcError INTERNAL, "Invalid metadata"',
        reason="as it is without asyncio; a call whose status never comes cannot be waited for",
    ),
    Difference(
        cases=("aio_contexts.is_a_servicer_context",),
        fields=("value",),
        grpc="the context is no grpc.aio.ServicerContext",
        ours="it is one",
        reason="what the annotations of handlers say is true",
    ),
    Difference(
        cases=("compression.the_server_has_it_disabled",),
        fields=("value", "raised"),
        grpc="UNIMPLEMENTED",
        ours="answered",
        reason="nothing is compressed, for there is no wire",
    ),
    Difference(
        cases=("metadata.is_invalid_on_the_client",),
        fields=("outcome",),
        grpc="ValueError",
        ours='INTERNAL, "Invalid metadata"',
        reason="as newer gRPC has it",
        before=(1, 81),
    ),
    Difference(
        cases=("metadata.is_invalid_on_the_server", "aio_metadata.is_invalid_on_the_server"),
        fields=("code", "details"),
        grpc="never answers",
        ours='INTERNAL, "Invalid metadata"',
        reason="as newer gRPC has it",
        before=(1, 81),
    ),
    Difference(
        cases=("aio_servers.an_asyncio_limit_is_below_one",),
        fields=("text",),
        grpc='"maximum_concurrent_rpcs should be a postive integer"',
        ours='"positive"',
        reason="as newer gRPC spells it",
        before=(1, 81),
    ),
    Difference(
        cases=(
            *("statuses.the_code_is_set[OK]", "statuses.details_without_a_code"),
            *("aio_statuses.the_code_is_set[OK]", "aio_statuses.details_without_a_code"),
            *("transport.early_server_close[False-OK]", "transport.early_server_close[True-OK]"),
        ),
        fields=("details",),
        grpc="details of an OK reach the client",
        ours="they do not",
        reason="as newer gRPC has it",
        before=(1, 81),
    ),
    Difference(
        cases=(
            *("sizes.a_byte_where_none_may_be_sent", "aio_sizes.a_byte_where_none_may_be_sent"),
            *("sizes.a_message_beyond_the_default", "aio_sizes.a_message_beyond_the_default"),
            *("sizes.a_side_is_limited", "aio_sizes.a_side_is_limited"),
            "sizes.a_stream_breaks_at_the_message_that_is_too_large",
        ),
        fields=("details",),
        grpc="does not say which side refused the size",
        ours='begins with "SERVER: " or "CLIENT: "',
        reason="as newer gRPC has it",
        before=(1, 63),
    ),
    Difference(
        cases=("aio_servers.only_so_many_calls_at_once",),
        fields=("refused",),
        grpc="a call beyond maximum_concurrent_rpcs is never answered",
        ours='RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!"',
        reason="as newer gRPC has it",
        before=(1, 62),
    ),
    Difference(
        cases=(
            *("service_config.is_wrong", "service_config.is_wrong_in_every_way"),
            *("aio_service_config.is_wrong", "aio_service_config.is_wrong_in_every_way"),
        ),
        fields=("details",),
        grpc="does not say what is wrong",
        ours="names the fields and what is wrong with each",
        reason="as newer gRPC has it",
        before=(1, 73),
    ),
)


def table() -> list[str]:
    """Return the rows of the README's table."""
    return [f"| {_names(one)} | {_versions(one)} | {one.grpc} | {one.ours} | {one.reason} |" for one in DIFFERENCES]


def _names(one: Difference) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(case.partition("[")[0] for case in one.cases))


def _versions(one: Difference) -> str:
    return "all" if one.before is None else f"before {one.before[0]}.{one.before[1]}"
