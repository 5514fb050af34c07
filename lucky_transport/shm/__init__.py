"""Shared memory: segments, rings, image files, and the connections made of them."""
