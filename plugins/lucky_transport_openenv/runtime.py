"""OpenEnv's package, FastMCP and the HTTP server, imported in one place.

from lucky_transport_openenv.runtime import FastMCP, HTTPEnvServer

Type checkers read `runtime.pyi`, because they have to do without these packages.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import warnings
from importlib.metadata import packages_distributions

from lucky_transport.errors import ConfigError

_installed = sorted(set(packages_distributions().get("openenv", ())))
if len(_installed) > 1:
    raise ConfigError(
        f"{' and '.join(_installed)} both install the module openenv, and one has overwritten files of the other",
        backend="openenv",
        hint=f"pip uninstall {' '.join(_installed)}, then install one of them, in an environment of its own",
    )

with warnings.catch_warnings():  # some of what they import warns of its own future; that is not this program's affair
    warnings.simplefilter("ignore")
    import fastapi
    import pydantic
    import uvicorn
    from fastmcp import FastMCP
    from fastmcp.exceptions import ToolError
    from fastmcp.tools import Tool
    from fastmcp.tools.base import ToolResult
    from mcp.types import ToolAnnotations
    from openenv.core.env_server.exceptions import SessionCapacityError
    from openenv.core.env_server.http_server import HTTPEnvServer
    from openenv.core.env_server.mcp_environment import MCPEnvironment
    from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
    from openenv.core.env_server.types import (
        Action,
        ConcurrencyConfig,
        EnvironmentMetadata,
        Observation,
        State,
    )

__all__ = [
    "Action",
    "CallToolAction",
    "ConcurrencyConfig",
    "EnvironmentMetadata",
    "FastMCP",
    "HTTPEnvServer",
    "ListToolsAction",
    "MCPEnvironment",
    "Observation",
    "SessionCapacityError",
    "State",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "fastapi",
    "pydantic",
    "uvicorn",
]
