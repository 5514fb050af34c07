"""Files of slots in shared memory: images that one client reads, and the newest of a sequence of records."""
