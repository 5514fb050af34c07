"""Images in shared memory: files of slots that an engine fills and one client reads."""
