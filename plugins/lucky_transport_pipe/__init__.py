"""The transport of the Unity training framework: one named pipe, lines of text, many sessions; both ends."""
