"""OpenRA-RL's bridge: its protobuf service over our sessions, and a client of it."""
