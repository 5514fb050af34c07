"""Moving methods from gRPC to shared memory: the policy that routes and collects evidence, promotions and demotions."""
