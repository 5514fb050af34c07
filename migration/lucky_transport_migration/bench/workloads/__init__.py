"""What each suite runs: processes, loops and checks that turn a case into the measurements of its cells."""
