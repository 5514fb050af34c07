"""`lucky-transport bench --suite commands`: typed calls, streams and images over one transport against another."""
