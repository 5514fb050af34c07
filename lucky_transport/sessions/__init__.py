"""Sessions: many independently advanced worlds in one engine, over any transport."""
