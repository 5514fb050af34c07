"""The differential suite: our channel and server do what real gRPC does, case by case, in the same process.

A case is a function of two ends (a server and channels to it) that returns a record of all that a user can see. The
suite runs each case over real gRPC and over ours and compares the records; what differs on purpose stands in
`declared.py`, with its reason, and in the plugin's README.

A case asserts nothing. What real gRPC does, in the version that is installed, is what is right. A case records nothing
that differs between two runs over real gRPC: no times, no addresses, no races. Every wait in a case is bounded; a wait
that is not met is recorded, and so differs.
"""
