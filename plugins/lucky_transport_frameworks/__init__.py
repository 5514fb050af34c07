"""Our env in the training libraries that people use."""
