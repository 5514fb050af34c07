"""Shared memory: layout, header, segment, views, atomics, waiting, liveness, rings."""
