"""`lucky-transport inspect`: what an engine or gRPC server at an endpoint offers, a segment's header by option."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.cli.completion import complete_endpoints
from lucky_transport.cli.services import show_services
from lucky_transport.cli.tables import echo, show
from lucky_transport.errors import plural

if TYPE_CHECKING:
    from lucky_transport.control import EngineDescription
    from lucky_transport.diagnosis.inspection import EngineReport, SegmentReport
    from lucky_transport.diagnosis.servers import ServerReport
    from lucky_transport.spec.batch_spec import BatchSpec


#: Values longer than this are cut in tables; JSON has them whole.
_LONGEST = 100


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport inspect shm://demo\n"
    "  lucky-transport inspect shm://demo --header\n"
    "  lucky-transport inspect grpc://127.0.0.1:50051 --json | jq .spec.num_envs",
)
@click.argument("endpoint", shell_complete=complete_endpoints)
@click.option("--header", is_flag=True, help="Of a segment: show every header field and the regions too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def inspect(endpoint: str, header: bool, as_json: bool) -> None:
    """Show what the engine or gRPC server at ENDPOINT offers, without driving it.

    A segment (shm://name) is read, not attached to, also when its engine is gone or it is damaged (exit code 1). What a
    gRPC server there says of itself is read too. Other endpoints are connected to: spec, capabilities and methods.
    """
    from lucky_transport import api, control
    from lucky_transport.diagnosis import inspection, servers
    from lucky_transport.endpoint import Endpoint
    from lucky_transport.errors import NotReachable

    where = Endpoint.parse(endpoint)
    offer: EngineDescription | None = None
    with contextlib.suppress(NotReachable):
        offer = control.engine_at(endpoint)
    if where.scheme == "shm":
        try:
            report = inspection.of_segment(where.address)
        except NotReachable:
            if not (found := servers.of_name(where.address)):
                raise
            _inspect_servers(str(where), found, as_json)
            return
        if as_json:
            click.echo(json.dumps({"endpoint": str(where)} | _segment_plain(report) | _offer_plain(offer), indent=2))
        else:
            _show_segment(report, header, offer)
        if report.problem:
            raise click.exceptions.Exit(1)
        return
    with api.open_transport(where) as transport:
        engine = inspection.of_engine(transport)
    if as_json:
        click.echo(json.dumps({"endpoint": str(where)} | _engine_plain(engine) | _offer_plain(offer), indent=2))
    else:
        _show_engine(engine, offer)


def _offer_plain(offer: EngineDescription | None) -> dict[str, Any]:
    return {"services": None if offer is None else offer.services, "streams": None if offer is None else offer.streams}


def _spec_plain(spec: BatchSpec | None) -> Any:
    return None if spec is None else spec.to_plain()


def _segment_plain(report: SegmentReport) -> dict[str, Any]:
    regions = [] if report.layout is None else list(report.layout.regions.values())
    return {
        "transport": "shm",
        **report.info.plain(),
        "problem": report.problem,
        "gpu": report.gpu,
        "header": report.fields,
        "regions": [{"name": r.name, "offset": r.offset, "size_bytes": r.size} for r in regions],
        "spec": _spec_plain(report.spec),
    }


def _engine_plain(report: EngineReport) -> dict[str, Any]:
    return {
        "transport": report.transport,
        "capabilities": report.capabilities,
        "methods": report.methods,
        "spec": _spec_plain(report.spec),
    }


def _show_segment(report: SegmentReport, with_header: bool, offer: EngineDescription | None) -> None:
    info = report.info
    echo(f"{info.path}: {info.size_bytes} bytes, {_side('engine', info.engine)}, {_side('client', info.client)}")
    if report.problem:
        echo(f"problem: {report.problem}")
    if report.gpu:
        echo(f"observations on a GPU: {report.gpu}")
    echo()
    if offer is not None:
        show_services(offer)
    _show_spec(report.spec)
    if with_header or report.problem:
        rows = [(one["offset"], one["name"], _cut(one["shown"]), one["meaning"]) for one in report.fields]
        show("Header", ("offset", "field", "value", "meaning"), rows)
        if report.layout is not None:
            regions = [(r.offset, r.name, r.size) for r in report.layout.regions.values()]
            show("Regions", ("offset", "region", "bytes"), sorted(regions))
    else:
        echo("--header shows the segment's header and regions.")


def _inspect_servers(endpoint: str, found: list[ServerReport], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"endpoint": endpoint, "servers": [one.plain() for one in found]}, indent=2))
    for one in () if as_json else found:
        where = f", {'relay to the server' if one.is_relay else 'gRPC'} at {one.target}" if one.target else ""
        peers = "" if one.peers is None else f", {plural(one.peers, 'peer')}"
        echo(f"{endpoint}: gRPC server of {_gone(one)}{where}{peers}")
        echo()
        columns = ("method", "over shm", "over gRPC")
        methods = sorted({*one.methods, *(one.calls or ())})
        rows = [(method, *(map(_count, (one.calls or {}).get(method, (None, None))))) for method in methods]
        show("Methods and calls", columns, rows, empty="none that its handlers list", numbers=True)
    if any(one.state == "stale" for one in found):
        raise click.exceptions.Exit(1)


def _gone(server: ServerReport) -> str:
    if server.state != "stale":
        return server.process
    return f"pid {server.pid}, which is gone; `lucky-transport doctor --fix` removes what it left"


def _count(calls: int | None) -> str:
    return "-" if calls is None else f"{calls:,}"


def _show_engine(report: EngineReport, offer: EngineDescription | None) -> None:
    echo(f"transport {report.transport}")
    echo()
    if offer is not None:
        show_services(offer)
    show(
        "What the transport can carry",
        ("capability", "carried"),
        [(k, "yes" if v else "no") for k, v in report.capabilities.items()],
    )
    show("Methods", ("method", "state"), list(report.methods.items()))
    _show_spec(report.spec)


def _show_spec(spec: BatchSpec | None) -> None:
    if spec is None:
        return
    plain: dict[str, Any] = _spec_plain(spec)
    rows = [(key, _cut(json.dumps(value))) for key, value in plain.items() if not key.endswith("_parts")]
    show("Batch spec", ("key", "value"), rows)
    parts = _parts(spec)
    if parts:
        show("Parts", ("part", "byte", "dtype", "space"), parts)


def _parts(spec: BatchSpec) -> list[tuple[str, int, str, str]]:
    """Return place, offset in its row, dtype and space of every part."""
    from lucky_transport.spec.composite import place

    kinds = {"observation": spec.observation_parts, "info": spec.info_parts, "action": spec.action_parts}
    return [
        (place(kind, part.path), part.offset, part.array.dtype, _cut(" ".join(str(part.array.space()).split())))
        for kind, some in kinds.items()
        for part in some
    ]


def _side(side: str, name: str) -> str:
    return f"{side} {name}" if name else f"no {side}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
