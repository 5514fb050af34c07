"""The proof that transports answer the same: the stepping path, every typed method and every stream, on all of them."""
