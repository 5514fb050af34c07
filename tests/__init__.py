"""Tests, what they share (`support`), and long runs for a scheduled job (`endurance`)."""
