"""The kernel's interfaces: the launcher's spec, seccomp filters, Landlock rules, system-call tables."""
