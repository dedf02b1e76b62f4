"""Files that a command could have planted or changed: opened step by step, removed, set aside, compared."""
