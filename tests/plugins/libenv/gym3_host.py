"""What the real gym3 sees of a library; run by its own interpreter, prints one JSON object.

    python gym3_host.py FOLDER NAME OPTIONS ACTIONS THREADS

ACTIONS: a .npz file with one array (steps, num, ...) per action tensor.
"""

import hashlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from gym3.libenv import CEnv  # pyright: ignore[reportMissingImports]

folder, name, options, actions, threads = sys.argv[1:]
given = dict(np.load(actions))
steps, num = next(iter(given.values())).shape[:2]


def shown(env):
    """Return a digest of all that an observation is, and what can be read."""
    rew, ob, first = env.observe()
    first = first.view(np.uint8) != 0  # a library may write any byte, which gym3 hands on as a bool
    digest = hashlib.sha256()
    for array in (rew, first, *ob.values(), *(np.stack([i[key] for i in env.get_info()]) for key in env.get_info()[0])):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {"digest": digest.hexdigest(), "first": first.tolist(), "rew": rew.tolist(), "names": list(ob)}


def play(_):
    env = CEnv(num=num, lib_dir=folder, lib_name=name, options=json.loads(options))
    seen = [shown(env)]
    for step in range(steps):
        env.act({key: array[step] for key, array in given.items()})
        seen.append(shown(env))
    again = shown(env)
    env.act({key: array[0] for key, array in given.items()})
    env.act({key: array[1] for key, array in given.items()})
    after_two = shown(env)
    env.close()
    env.close()
    return {"seen": seen, "again": again, "after_two": after_two}


with ThreadPoolExecutor(int(threads)) as pool:
    print(json.dumps(list(pool.map(play, range(int(threads))))))
