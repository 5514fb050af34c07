"""What is measured: a suite a file, with its cells, its cases, its targets and what measures them."""
