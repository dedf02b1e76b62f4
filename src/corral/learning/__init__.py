"""Learning a policy: from what a command used in an observed sandbox, to the smallest file that would do."""
