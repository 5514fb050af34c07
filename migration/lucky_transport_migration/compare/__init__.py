"""Where two answers differ: the rules, and one `Difference` for arrays, messages, items and outcomes."""
