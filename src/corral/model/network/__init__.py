"""Where a command may connect: addresses, endpoints, the decision, and what passed."""
