"""Our memory backends, one a file."""
