"""What `bench --peers` measures beside us: other people's ways to move the bytes of a step between two processes."""
