"""Live runs: what other processes of the same user can see of a run while it lasts."""
