"""Code that several test directories share. `tests/conftest.py` puts it on the path."""
