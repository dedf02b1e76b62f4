"""A configuration with five mistakes, each of another kind."""

FIVE_MISTAKES = """\
[sandbox]
enabled = "yes"
netwrok = "none"
backend = "dokcer"

[sandbox.resources]
memory = "lots"
pids = -3
"""
