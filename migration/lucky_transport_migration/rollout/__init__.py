"""Moving methods from gRPC to shared memory: the board that routes and collects evidence, promotions and demotions."""
