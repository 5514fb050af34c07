"""The launcher: an unmodified program, its gRPC channels over shared memory (`lucky-transport run -- python train.py`).

    command      the command line        launch      start the program, pass signals on, keep its exit status
    environment  what the program and its children inherit: PYTHONPATH, LUCKY_*
    bootstrap/   the sitecustomize that every Python below finds; calls `activation` when grpc is imported
    activation   settings -> switch      switch      target -> route, said once       targets   gRPC's names, the map
    patches      grpc's four channel factories       counting  a channel whose calls are counted
    call_counters  counts that survive their process   report    what was called, merged
    unpatched_processes  Pythons that the switch cannot reach
    luckyrobots_patch    the health check of luckyrobots 0.5.0

What the launcher itself imports (command, launch, environment, targets, call_counters, report, unpatched_processes)
imports neither grpc nor NumPy: starting a program costs what starting Python costs.
"""
