"""One command from its start to its result, as any POSIX system has it; `launcher` has what is Linux."""
