"""`corral try` and what is done with its changes."""
