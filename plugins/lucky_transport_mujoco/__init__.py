"""The MuJoCo reference engine: a quadruped that tracks velocity commands."""
