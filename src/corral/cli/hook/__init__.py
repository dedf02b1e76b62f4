"""`corral hook …`: what agents call before and for each command that they run."""
