"""`lucky-transport bench`: transports measured against each other in one run.

`suites` says what is measured, `workloads` measure it, `run` puts rounds, rows, ratios and the verdict
together as one JSON-able result, and `report` and `terminal` show such a result.
"""
