"""libenv: C environment libraries as engines, and any engine as such a library."""
