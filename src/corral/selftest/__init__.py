"""Selftest: real attacks, run against corral on this host and judged on this host. See `battery.run_battery`."""
