"""The command line: one file per command, each thin. Commands of plugins come in through a hook."""
