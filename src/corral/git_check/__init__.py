"""What the host's git would run or follow afterwards, found in every repository a command could write."""
