"""The conformance vectors of `schema/kits/vectors`: what the Python implementation writes, reads and refuses."""
