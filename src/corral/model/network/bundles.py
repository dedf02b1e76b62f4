"""Bundles: names for the hosts that a package manager goes to, as in `--allow @npm`."""

from __future__ import annotations

#: Where each client goes if nothing else is configured; empty: it depends on this machine alone.
DEFAULT_HOSTS: dict[str, tuple[str, ...]] = {
    "pip": ("pypi.org", "files.pythonhosted.org"),
    "npm": ("registry.npmjs.org",),
    "cargo": ("index.crates.io", "static.crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
    "apt": (),
    "git": (),
}


def bundle_of(host: str) -> str:
    """The bundle that a host belongs to by default, as it is typed; empty for most."""
    return next((f"@{name}" for name, hosts in DEFAULT_HOSTS.items() if host in hosts), "")
