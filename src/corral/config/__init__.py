"""Configuration files: found, read, trusted, and turned into a policy."""
