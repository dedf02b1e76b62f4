"""What a trial committed: read from its layers, checked and brought over by git itself."""
