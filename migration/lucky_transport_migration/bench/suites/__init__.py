"""What each suite measures: its cells, its cases and its targets, as tables."""
