"""A team's own engine and trajectories, run side by side over several transports: what the pytest plugin is made of."""
