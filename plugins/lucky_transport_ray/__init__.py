"""A batch of envs spread over the nodes of a Ray cluster."""
