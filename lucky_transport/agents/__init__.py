"""LuckyEngine's per-agent Step and ResetAgent on a host that steps all envs together."""
