"""Sessions with a name, kept by a daemon of the user's own."""
