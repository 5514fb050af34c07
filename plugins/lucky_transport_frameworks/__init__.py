"""Our env in the training libraries that people use, and a small PPO to start with."""
