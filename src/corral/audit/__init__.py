"""The audit log: what ran, under which policy, and how it ended, in lines chained by their hashes."""
