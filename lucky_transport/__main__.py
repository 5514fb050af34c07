"""`python -m lucky_transport` is `lucky-transport`."""

from lucky_transport.cli import main

main()
