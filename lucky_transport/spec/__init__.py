"""What an env is made of: arrays, their batch, composite spaces, and the checks of actions against them."""
