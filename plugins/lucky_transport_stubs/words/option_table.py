"""What happens to each channel option, server option, credential, argument and field of a service config: one table.

Names of options are those of `grpc/impl/channel_arg_names.h`; a test takes them from the installed grpcio. Those of
`grpc.internal.` are set by gRPC itself only.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["LOGGED", "TABLE", "Row", "Treatment", "rows"]


class Treatment(enum.Enum):
    """What happens to what a program gives."""

    HONOURED = "honoured"
    LOGGED = "without effect; the log names it, once"
    SILENT = "without effect, and nothing changes"
    REFUSED = "refused by name"


class Row(NamedTuple):
    """Names with one treatment, and what a program sees: why that is so, or what is there in place of it."""

    treatment: Treatment
    why: str
    names: str
    kind: str = "option"


_H, _L, _S, _R = Treatment.HONOURED, Treatment.LOGGED, Treatment.SILENT, Treatment.REFUSED

TABLE = (
    Row(_H, "as in gRPC", "grpc.max_receive_message_length grpc.max_send_message_length"),
    Row(_H, "as in gRPC", "grpc.primary_user_agent grpc.secondary_user_agent"),
    Row(
        _H,
        "the host that plugins of call credentials are told",
        "grpc.default_authority grpc.ssl_target_name_override",
    ),
    Row(
        _H,
        "as in gRPC; what of a service config has an effect is below",
        "grpc.service_config grpc.enable_retries grpc.per_rpc_retry_buffer_size",
    ),
    Row(
        _H,
        "as in gRPC for channels of asyncio, which share a connection without it; others never do",
        "grpc.use_local_subchannel_pool",
    ),
    Row(_L, "metadata has 16,384 bytes at most", "grpc.max_metadata_size grpc.absolute_max_metadata_size"),
    Row(_L, "a server takes 1,024 calls at a time of each connection", "grpc.max_concurrent_streams"),
    Row(
        _L,
        "connections last until either side closes them",
        "grpc.max_connection_age_ms grpc.max_connection_age_grace_ms grpc.max_connection_idle_ms",
    ),
    Row(_L, "a channel stays connected", "grpc.client_idle_timeout_ms"),
    Row(
        _L,
        "calls wait for a thread of the pool until their deadlines",
        "grpc.server.max_pending_requests grpc.server.max_pending_requests_hard_limit"
        " grpc.server_max_unrequested_time_in_server",
    ),
    Row(_L, "any number of clients connects", "grpc.max_allowed_incoming_connections"),
    Row(
        _L,
        "memory is bounded by connection: each has rings of a fixed size",
        "grpc.resource_quota",
    ),
    Row(_L, "no policy is applied: callers are processes of this user", "grpc.authorization_policy_provider"),
    Row(
        _L,
        "channelz does not list what goes through shared memory",
        "grpc.enable_channelz grpc.max_channel_trace_event_memory_per_node",
    ),
    Row(_L, "responses are read as without it", "SingleThreadedUnaryStream"),
    Row(
        _H,
        "a server refuses calls with an algorithm that it has disabled; nothing is compressed, for there is no wire",
        "grpc.compression_enabled_algorithms_bitset grpc.default_compression_algorithm",
    ),
    Row(
        _S,
        "nothing is compressed, for there is no wire",
        "grpc.default_compression_level grpc.per_message_compression grpc.per_message_decompression",
    ),
    Row(_S, "a call makes one attempt at a time, as in gRPC without it", "grpc.experimental.enable_hedging"),
    Row(
        _S,
        "a broken connection is made again with the next call",
        "grpc.initial_reconnect_backoff_ms grpc.min_reconnect_backoff_ms grpc.max_reconnect_backoff_ms"
        " grpc.testing.fixed_reconnect_backoff_ms",
    ),
    Row(
        _S,
        "the kernel says when a process has gone",
        "grpc.keepalive_time_ms grpc.keepalive_timeout_ms grpc.keepalive_permit_without_calls grpc.http2.ack_pings"
        " grpc.http2.max_inflight_pings grpc.http2.max_ping_strikes grpc.http2.max_pings_without_data"
        " grpc.http2.ping_on_rst_stream_percent grpc.http2.ping_timeout_ms",
    ),
    Row(
        _S,
        "a name has one server, but for those that name a group (`shm://NAME?shared=GROUP`), as `run` does",
        "grpc.so_reuseport",
    ),
    Row(
        _S,
        "there is no HTTP/2",
        "grpc.http2.bdp_probe grpc.http2.hpack_table_size.decoder grpc.http2.hpack_table_size.encoder"
        " grpc.http2.initial_sequence_number grpc.http2.lookahead_bytes grpc.http2.max_deallocating_streams"
        " grpc.http2.max_frame_size grpc.http2.max_requests_per_read grpc.http2.max_security_frame_size"
        " grpc.http2.settings_timeout grpc.http2.true_binary grpc.http2.write_buffer_size grpc.http2_scheme"
        " grpc.experimental.http2.enable_preferred_frame_size grpc.http.overload_protection grpc.http.tarpit"
        " grpc.http.tarpit_max_duration_ms grpc.http.tarpit_min_duration_ms grpc.security_frame_allowed"
        " grpc.http.max_concurrent_streams_reject_on_client grpc.preferred_transport_protocols"
        " grpc.http.do_not_use_unless_you_have_permission_from_grpc_team_allow_broken_put_requests",
    ),
    Row(
        _S,
        "there are no sockets",
        "grpc.dscp grpc.expand_wildcard_addrs grpc.experimental.tcp_max_read_buffer_size"
        " grpc.experimental.tcp_max_read_chunk_size grpc.experimental.tcp_min_read_chunk_size"
        " grpc.experimental.tcp_read_chunk_size grpc.experimental.tcp_tx_zerocopy_enabled"
        " grpc.experimental.tcp_tx_zerocopy_max_simultaneous_sends"
        " grpc.experimental.tcp_tx_zerocopy_send_bytes_threshold grpc.happy_eyeballs_connection_attempt_delay_ms"
        " grpc.socket_factory grpc.socket_mutator grpc.tcp_receive_buffer_size grpc.tcp_tracing_enabled"
        " grpc.server_handshake_timeout_ms grpc.experimental.event_engine"
        " grpc.event_engine_use_memory_allocator_factory grpc.experimental.promise_based_inproc_transport",
    ),
    Row(
        _S,
        "nothing is encrypted: memory of this user is shared",
        "grpc.ssl_session_cache grpc.tsi.max_frame_size grpc.secure_endpoint.decryption_offload_threshold"
        " grpc.secure_endpoint.encryption_offload_max_buffered_writes"
        " grpc.secure_endpoint.encryption_offload_threshold grpc.security_level grpc.auth_context",
    ),
    Row(
        _S,
        "a name is one place: nothing is resolved, balanced or proxied",
        "grpc.address_http_proxy grpc.address_http_proxy_enabled_addresses grpc.address_name"
        " grpc.address_is_backend_from_grpclb_load_balancer grpc.address_is_grpclb_load_balancer"
        " grpc.child_channel.args grpc.dns_ares_query_timeout grpc.dns_enable_srv_queries"
        " grpc.dns_min_time_between_resolutions_ms grpc.enable_http_proxy grpc.experimental.grpclb_channel_args"
        " grpc.grpclb_call_timeout_ms grpc.grpclb_fallback_timeout_ms grpc.http_connect_headers"
        " grpc.http_connect_server grpc.http_proxy grpc.inhibit_health_checking grpc.lb.ring_hash.ring_size_cap"
        " grpc.lb_policy_name grpc.max_connections_per_subchannel_cap grpc.priority_failover_timeout_ms"
        " grpc.server_uri grpc.service_config_disable_resolution",
    ),
    Row(
        _S,
        "there is no xDS",
        "grpc.experimental.server_config_change_drain_grace_time_ms grpc.mitigation_engine_provider"
        " grpc.server_config_fetcher grpc.xds_client_channel_args grpc.xds_resource_does_not_exist_timeout_ms"
        " grpc.TEST_ONLY_DO_NOT_USE_IN_PROD.xds_bootstrap_config"
        " grpc.TEST_ONLY.xds_logical_dns_cluster_fake_resolver_response_generator",
    ),
    Row(
        _S,
        "of gRPC's filters, plugins and tests, which programs in Python cannot give",
        "grpc.census grpc.channelz_is_internal_channel grpc.client_channel_factory grpc.disable_client_authority_filter"
        " grpc.enable_deadline_checking grpc.experimental.server_call_tracer_factory grpc.experimental.stats_plugins"
        " grpc.fake_resolver.response_generator grpc.fake_security.expected_targets grpc.minimal_stack"
        " grpc.server_call_metric_recording grpc.surface_user_agent grpc.test-only.rls.instance_id"
        " grpc.testing.google_c2p_resolver_metadata_server_override"
        " grpc.testing.google_c2p_resolver_pretend_running_on_gcp grpc.testing.use_put_requests",
    ),
    Row(
        _H,
        "sent as metadata, in gRPC's order",
        "access_token_call_credentials metadata_call_credentials composite_call_credentials"
        " composite_channel_credentials",
        "credentials",
    ),
    Row(
        _H,
        "what the connection is: local, of one user",
        "local_channel_credentials local_server_credentials insecure_channel_credentials insecure_server_credentials",
        "credentials",
    ),
    Row(
        _H,
        "taken for local ones; under `run` a port that demands a client's certificate stays on gRPC",
        "ssl_channel_credentials ssl_server_credentials dynamic_ssl_server_credentials",
        "credentials",
    ),
    Row(_H, "their fallback counts", "xds_channel_credentials", "credentials"),
    Row(
        _R,
        "they authenticate a network's peer; under `run` the channel or port stays on gRPC",
        "alts_channel_credentials compute_engine_channel_credentials alts_server_credentials xds_server_credentials",
        "credentials",
    ),
    Row(
        _H,
        "as in gRPC",
        "target credentials options interceptors handlers thread_pool migration_thread_pool maximum_concurrent_rpcs",
        "argument",
    ),
    Row(_H, "checked as in gRPC; nothing is compressed, for there is no wire", "compression", "argument"),
    Row(_L, "there is no xDS", "xds", "argument"),
    Row(_H, "as in gRPC", "methodConfig name timeout waitForReady retryPolicy retryThrottling", "service config"),
    Row(_L, "a call makes one attempt at a time", "hedgingPolicy", "service config"),
    Row(_L, "there is one server", "loadBalancingConfig loadBalancingPolicy", "service config"),
    Row(_L, "a server that listens is taken to be healthy", "healthCheckConfig", "service config"),
    Row(
        _L,
        "the channel's options limit the size of messages",
        "maxRequestMessageBytes maxResponseMessageBytes",
        "service config",
    ),
)

#: The options, arguments and fields that the log names, and what it says of them.
LOGGED = {name: row.why for row in TABLE if row.treatment is Treatment.LOGGED for name in row.names.split()}


def rows() -> list[str]:
    """Return the rows of the README's table."""
    return [f"| {row.kind} | {_quoted(row)} | {row.treatment.value} | {row.why} |" for row in TABLE]


def _quoted(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row.names.split())
