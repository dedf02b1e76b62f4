"""Fixtures: somebody who types `corral session ...`, as root and as an ordinary user."""

from __future__ import annotations

from support.persons import packages, person, root_person

__all__ = ["packages", "person", "root_person"]
