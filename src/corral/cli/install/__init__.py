"""`corral install …`: what corral puts into a system for its user."""
