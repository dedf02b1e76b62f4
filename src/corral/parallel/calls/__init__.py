"""Calls: a Python function and its arguments as bytes, and what a sandboxed worker answers as a value."""
