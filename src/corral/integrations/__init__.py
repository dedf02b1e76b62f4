"""Tools for those who write an agent themselves; finished agents get in by `cli.hook` and `cli.install`."""
