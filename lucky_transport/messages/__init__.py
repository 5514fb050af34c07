"""The typed messages of every method, and the one table of methods.

Rule 1: a message is defined here once; codecs to FlatBuffers and Protobuf are derived from these dataclasses.
Rule 2: field order is the wire order of FlatBuffers; fields are only ever appended, and a struct never changes.
Rule 3: an enum's value that a newer peer knows and we do not is a plain number.
"""
