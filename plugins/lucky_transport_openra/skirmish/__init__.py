"""A small real-time strategy game: two sides gather ore, build, train and fight under fog; one of them is scripted."""
