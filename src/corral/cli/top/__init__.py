"""`corral top`: sessions and runs, as they go on."""
