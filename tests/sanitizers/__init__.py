"""The native module under the sanitizers of the compiler.

    python -m tests.sanitizers            # harness.c: two threads over one memory, and hostile bytes; a minute
    python -m tests.sanitizers --python   # tests/core/shm and all fuzz jobs with the module built with ASan and UBSan

`harness.c` includes the module's sources and stubs for what they call of Python. ThreadSanitizer knows no fences: what
they order is the model check's matter (`tests/model`).
"""
