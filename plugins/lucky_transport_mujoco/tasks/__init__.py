"""What an agent is asked to do: observations, rewards, terminations, commands and action groups."""
