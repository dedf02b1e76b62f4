"""What enforces a policy: one module for each backend, from a plan to the processes it starts."""
