"""Calls of every kind over a pair of record queues: requests, responses, streams, cancel, deadlines; no transport."""
