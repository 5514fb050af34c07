"""Observations and actions on a GPU: each test runs with a CUDA device where there is one, and with a stand-in."""
