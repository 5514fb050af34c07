"""Long runs for a scheduled job: soak, leaks, kills and fuzzing; `README.md` has the commands."""
