"""Staged channels: a `lucky_transport.routing.Router` decides for each call whether gRPC or shared memory answers.

The caller gets that channel's own objects; the router gets the bytes that were sent and received.
"""
