"""Engines that ship with the core, for tests, benchmarks and a first look."""
