"""How far each method has moved from gRPC to shared memory: stages, where they are written, and who answers a call."""
