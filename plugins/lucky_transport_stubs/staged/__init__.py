"""Staged channels: each call goes to the transport that a board decides for, and reads to the other one as well.

A board (`lucky_transport.staging`) says per call who answers, real gRPC or shared memory. The caller gets what that
channel makes, the very objects; what was sent and received as bytes goes to the board, beside a shadow's answer.
"""
