"""`lucky-transport top`: what the engines of this host do, and how far this project's methods have moved."""
