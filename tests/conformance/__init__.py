"""Proofs, one file for each feature. A package, so that a file may be named like one elsewhere."""
