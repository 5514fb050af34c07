"""The migration kit: parity, benchmarks and reports. Sees transports only through the registry."""
