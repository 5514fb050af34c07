"""Long runs for a scheduled job: soak, leaks, kills and fuzzing; `CONTRIBUTING.md` has the commands."""
