"""Registers the envs with Gymnasium, whichever of the two packages is imported first.

    gymnasium.make_vec("lucky_transport/Env", endpoint="shm://lucky_demo")
    gymnasium.make_vec("lucky_transport/Toy-v0", num_envs=4)
    gymnasium.make_vec("lucky_transport:lucky_transport/Quadruped-v0", num_envs=16)     # imports us by itself

Importing this file imports neither Gymnasium nor NumPy, so that `import lucky_transport` stays fast.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Env id -> the arguments of `lucky_transport.make` that it stands for.
IDS: Mapping[str, Mapping[str, Any]] = {
    "lucky_transport/Env": {},
    "lucky_transport/Toy-v0": {"engine": "toy"},
    "lucky_transport/Quadruped-v0": {"engine": "mujoco:quadruped"},
}

_REGISTRY = "gymnasium.envs.registration"


def install() -> None:
    """Register the ids now if Gymnasium is imported, otherwise as soon as it is. Idempotent."""
    module = sys.modules.get(_REGISTRY)
    if module is not None:
        _register(module)
    elif not any(isinstance(finder, _WaitForGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WaitForGymnasium())


def _register(gymnasium_registration: ModuleType) -> None:
    for env_id, arguments in IDS.items():
        if env_id not in gymnasium_registration.registry:
            gymnasium_registration.register(
                id=env_id,
                entry_point=None,
                vector_entry_point="lucky_transport.api:make",
                kwargs=dict(arguments),
            )


class _WaitForGymnasium:
    """Registers once Gymnasium's registry has been imported.

    Gymnasium has had no entry point for this since 1.0, and an import of a package that is already imported runs
    nothing, so `make_vec("lucky_transport:...")` alone would fail wherever we were imported first. This finder finds
    nothing by itself: it asks the others, adds one call after that one module's own code, and takes itself out.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in sys.meta_path)), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register(module)

            loader.exec_module = execute_and_register
        return spec
