"""`corral session …`: named sessions from the command line."""
