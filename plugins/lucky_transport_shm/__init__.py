"""The shared-memory transport."""
