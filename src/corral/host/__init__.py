"""This machine: what planning asks about it, what was found out and is remembered, other programs asked."""
