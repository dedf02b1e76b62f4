"""What a policy is written in: capabilities, paths, patterns, quantities; and how two policies compare."""
