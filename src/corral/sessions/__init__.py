"""Sandboxes that are kept: sessions, background jobs, pools, and how a stale one is replaced."""
