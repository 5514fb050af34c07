"""The caller's side: channels, the methods of a stub, and their calls; asyncio's drivers are in `aio/`."""
