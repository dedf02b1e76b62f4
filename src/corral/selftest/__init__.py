"""Selftest: real attacks on corral, run and judged on this host. See `battery.run_battery`."""
