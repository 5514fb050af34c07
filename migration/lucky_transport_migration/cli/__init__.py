"""The commands of the migration kit: one file each, thin; they import what they run inside the function."""
