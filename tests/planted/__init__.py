"""Planted differences: what the tools that compare transports find, and what they say that they do not look at.

`planted` is a transport that leads to shm and plants one difference, named by the environment variable PLANT; `moving`
is an engine whose world moves between the items of its streams. Both are registered by the entry point of a folder that
`site` makes, for this process and the ones it starts; the product knows nothing of them.

    plant.py            `Plant`, a row of the tables; the transport and the engine, as a plugin offers them
    changes.py          small changes of answers, errors, items and frames, for any test over a transport
    step_plants.py      differences of steps, resets and the spec
    call_plants.py      differences of typed calls, streams, deadlines and errors
    answers.py          differences of the answers of a service that is not LuckyEngine's
    moving_engine.py    the engine
    mirror_engine.py    another one, which leaves no field of an answer empty
    tools.py            runs each tool over shm and planted; returns its exit status and all that it printed
    control_runs.py     the same tools without a plant, many times, beside other work: each must find all equal

To add a difference, add a row to the table of its family: a name, what makes it, the words that each report of it must
contain, once, and the tools that find it; for a tool that does not look at it, the words with which its report says so.
`test_plants.py` runs each tool on each row, `test_answers.py` the comparison in memory on each of a service's answers.
"""
