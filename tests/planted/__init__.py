"""Planted differences: what the tools that compare transports find, and what they say that they do not look at.

`planted` is a transport that leads to shm and plants one difference, named by the environment variable PLANT; `moving`
is an engine whose world moves between the items of its streams. Both are registered by the entry point of a folder that
`site` makes, for this process and the ones it starts; the product knows nothing of them.

    plant.py            `Plant`, a row of the tables; `PlantedTransport`, what its transports derive from
    step_plants.py      differences of steps, resets and the spec
    call_plants.py      differences of typed calls, streams, deadlines and errors
    moving_engine.py    the engine
    plugin.py           the transport and the engine, as a plugin offers them
    tools.py            runs each tool over shm and planted; returns its exit status and all that it printed
    control_runs.py     the same tools without a plant, many times, beside other work: each must find all equal

To add a difference, add a row to the table of its family: a name, what is planted, and for each tool either the words
that its report must contain, or, where the tool does not look at it, the words with which its report says so. The test
of the family (`test_step_plants.py`, `test_call_plants.py`) runs each tool of each row. Differences in the answers of a
service that is not LuckyEngine's have their own table, in `test_own_service_plants.py`.
"""
