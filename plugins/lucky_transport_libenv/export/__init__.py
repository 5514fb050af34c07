"""Any engine as a libenv library: a small shared object that starts the engine's process and steps it."""
