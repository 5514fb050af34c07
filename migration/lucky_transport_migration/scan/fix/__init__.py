"""The mechanical rewrites of `lucky-transport scan --fix`: each keeps what the program does, or is left undone."""
