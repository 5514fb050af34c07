"""Messages to bytes and back: FlatBuffers tables derived from the dataclasses, and the envelope they travel in."""
