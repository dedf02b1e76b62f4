"""Trials: layers that took what commands wrote, looked at, applied and undone."""
