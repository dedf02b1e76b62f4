"""Presets, composition and contradictions of policies."""
