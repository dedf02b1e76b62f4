"""git's own files, read exactly as git reads them, without running git."""
