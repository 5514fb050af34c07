"""How further clients connect: the socket, the pipe each is given, and the loop that serves them all."""
