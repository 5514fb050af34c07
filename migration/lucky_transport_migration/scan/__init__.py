"""What is left of gRPC in a code base: found, judged, and rewritten where that is mechanical."""
