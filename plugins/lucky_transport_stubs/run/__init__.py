"""The launcher: an unmodified program, its gRPC channels over shared memory (`lucky-transport run -- python train.py`).

    command      the command line
    launch       the program as a child: started, signals passed on, its exit status kept
    activation   what it and its children inherit (PYTHONPATH, LUCKY_*), and what that does in a process
    bootstrap/   the sitecustomize that every Python below finds; calls `activation` when grpc is imported
    here         the same without a launcher (`import lucky_transport.auto`), and for a while (tests)
    targets      gRPC's names of places, and the map from them to endpoints
    switch       target -> route, reported once
    patches      grpc's factories of channels, servers and credentials, luckyrobots 0.5.0
    servers      gRPC's server and ours as one
    notice       what is told on stderr
    report       what was called, of all processes     unpatched_processes  Pythons that the switch cannot reach

What the launcher itself imports (command, launch, activation, targets, report, unpatched_processes)
imports neither grpc nor NumPy nor asyncio. What a program's first channel or server imports is named, module by
module, in `tests/exhaustive/plugins/stubs/run/test_start.py`: no NumPy, no typed message.
"""
