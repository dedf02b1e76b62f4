"""`corral image …`: container images listed and built."""
