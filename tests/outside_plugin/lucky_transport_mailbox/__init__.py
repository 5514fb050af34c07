"""A transport of somebody else's: pickled messages over a unix socket. Slow, small, and complete."""
