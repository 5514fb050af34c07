"""`bench --suite images`: what a picture costs on its way, by its size."""
