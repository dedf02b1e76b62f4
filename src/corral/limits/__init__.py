"""Limits of the whole process tree: control groups of both versions, systemd's scopes, and what they tell."""
