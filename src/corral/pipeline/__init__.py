"""From what a caller gave to a run that goes: planned, planned anew, its network opened, watched."""
