"""The segment of an engine: its layout and header, how it is made, found and removed, and its two rings."""
