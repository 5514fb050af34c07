from typing import Any

Action: Any
CallToolAction: Any
ConcurrencyConfig: Any
EnvironmentMetadata: Any
FastMCP: Any
HTTPEnvServer: Any
ListToolsAction: Any
MCPEnvironment: Any
Observation: Any
SessionCapacityError: Any
State: Any
Tool: Any
ToolAnnotations: Any
ToolError: Any
ToolResult: Any
fastapi: Any
pydantic: Any
uvicorn: Any
