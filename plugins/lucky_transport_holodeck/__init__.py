"""The Holodeck transport: named semaphores and shared memory, as the `holodeck` package speaks them."""
