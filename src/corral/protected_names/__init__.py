"""Protected names during and after a run: watched, held, put into quarantine."""
