"""What is wrong with this machine, and how to mend it: one function per check, `table.py` lists them all."""
