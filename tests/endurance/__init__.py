"""Long runs for a scheduled job: soak, leaks, kills and fuzzing; `README.md` has the commands.

The native module under the sanitizers, built in place; run the install command afterwards:

    CFLAGS="-g -O1 -fsanitize=address,undefined" python setup.py build_ext --inplace --force
    export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
    export ASAN_OPTIONS=detect_leaks=0:handle_sigbus=0 UBSAN_OPTIONS=halt_on_error=1 PYTHONMALLOC=malloc
    python -m pytest tests/core/shm && python -m tests.endurance.fuzz rings && python -m tests.endurance.fuzz envelopes
"""
