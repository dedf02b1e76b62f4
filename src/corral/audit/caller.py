"""For whom this process runs commands, where no configuration describes that agent: hooks say so."""

from __future__ import annotations

agent = ""
