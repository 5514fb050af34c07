"""Engines as OpenEnv environments: episodes and tools over HTTP, WebSocket and MCP."""
