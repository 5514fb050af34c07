"""Staged channels: each call goes to the transport that a routing policy chooses, and reads to the other one as well.

A `lucky_transport.routing_policy.RoutingPolicy` decides per call whether real gRPC or shared memory answers. The caller
gets that channel's own objects; the bytes that were sent and received go to the policy, beside a shadow's answer.
"""
