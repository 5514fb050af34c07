"""What `schema/generate.py` writes, a module for each kind of text."""
