"""The gate: whether what was seen is enough for a method to move on, and what sends one back at once."""
