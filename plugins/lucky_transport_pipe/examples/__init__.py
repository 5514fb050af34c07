"""Training programs over the pipe, to be read and copied: `python -m lucky_transport_pipe.examples.genetic`."""
