from typing import Any

PlacementGroupSchedulingStrategy: Any
exceptions: Any
placement_group: Any
ray: Any
remove_placement_group: Any
