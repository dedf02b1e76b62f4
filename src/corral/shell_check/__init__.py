"""Checking the text of a shell command before it runs: an early no, which nothing else relies on."""
