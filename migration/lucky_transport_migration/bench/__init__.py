"""`lucky-transport bench`: transports measured against each other in one run.

`suites` say what is measured and measure it, `run` puts rounds, rows, ratios and the verdict together as one JSON-able
result, and `report` shows such a result.
"""
