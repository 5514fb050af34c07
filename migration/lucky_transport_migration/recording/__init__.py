"""What a client did with an engine, written down, and made again on another one."""
