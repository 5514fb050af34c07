"""The threads that handlers run on: those of a bounded pool, and the one that reads while a method is fast."""
