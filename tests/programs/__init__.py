"""Published gRPC programs, unmodified, over TCP and under `lucky-transport run`: `python -m tests.programs --help`.

`table.toml` lists them. Each has a file in `cases/`, which drives the package on both sides and is run by
`cases/side.py` in the program's own environment: it may import that package, and knows nothing of this project.
"""
