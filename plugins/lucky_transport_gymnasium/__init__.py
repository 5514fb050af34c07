"""Any registered Gymnasium env as an engine."""
