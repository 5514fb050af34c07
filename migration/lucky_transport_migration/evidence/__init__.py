"""What is seen while methods move: each call a line of evidence, compared by rules."""
