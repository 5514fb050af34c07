"""Gymnasium's vector API over any transport, and luckyrobots' own env on top of it."""
