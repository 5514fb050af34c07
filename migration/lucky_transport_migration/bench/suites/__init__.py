"""What each suite measures: its cells, its setups and its targets, as tables."""
