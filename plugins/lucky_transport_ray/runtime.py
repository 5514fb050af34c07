"""Ray itself, imported in one place.

from lucky_transport_ray.runtime import ray

Type checkers read `runtime.pyi`, because they have to do without it.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import ray
from ray import exceptions
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

__all__ = ["PlacementGroupSchedulingStrategy", "exceptions", "placement_group", "ray", "remove_placement_group"]
