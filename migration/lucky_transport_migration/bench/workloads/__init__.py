"""What each suite runs: processes, loops and checks that turn a setup into the measurements of its cells."""
