"""Staged channels: a `lucky_transport.routing.Router` says for each call whether real gRPC or shared memory answers.

The caller gets that channel's own objects; the router is told of the bytes that were sent and received.
"""
