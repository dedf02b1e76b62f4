"""`corral compile`: a plan that the launcher runs without Python, and the record of what it was made from."""
