"""What the suites of calls, `bench --suite commands` and `--suite stubs`, have in common: cells, rows, ratios, page."""
