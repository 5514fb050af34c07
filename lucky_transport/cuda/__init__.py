"""The CUDA driver, as far as this project needs it, and memory on a GPU that two processes share."""
