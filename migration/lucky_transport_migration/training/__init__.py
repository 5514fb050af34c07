"""`lucky-transport train`: a policy learns to walk, over each transport, and a page shows it."""
