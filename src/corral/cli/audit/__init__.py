"""`corral audit`."""
