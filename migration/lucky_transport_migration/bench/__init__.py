"""`lucky-transport bench`: transports measured against each other, and what is said of that."""
