"""`python -m lucky_transport` is `lucky-transport`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process; Ctrl-C while it is imported ends it as a later one does."""
    try:
        from lucky_transport.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
