"""`SandboxExecutor`: many commands and functions in sandboxes, some at a time."""
