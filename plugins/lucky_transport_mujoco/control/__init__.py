"""What drives a robot beside an agent: policies in slots, the motion graph and controls set by hand."""
