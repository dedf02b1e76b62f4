"""From a policy and a host to a plan: what is granted, shielded, masked, required, and by which backend."""
