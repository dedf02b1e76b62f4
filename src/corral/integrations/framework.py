"""What to say where an adapter's framework is not installed."""

from __future__ import annotations

from corral.model.errors import PolicyError


def missing_framework(name: str, extra: str, problem: ImportError) -> PolicyError:
    """The error for an adapter that is imported without its framework, or with one that is too old."""
    error = PolicyError(
        "missing-extra",
        f"corral cannot be used with {name}",
        why=f"{name} is not installed, or its version has another interface ({problem})",
        fix=f"pip install --upgrade 'corral[{extra}]'",
    )
    error.is_about_command = False
    return error
