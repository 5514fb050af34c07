"""The engine's side: one engine, any number of servers, one driver at a time."""
