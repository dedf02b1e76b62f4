"""How strictly a configuration has commands checked."""

from __future__ import annotations

#: From the mildest to the strictest. `warn` says what it finds, `ask` asks where somebody can be asked and
#: refuses elsewhere, `enforce` refuses whatever is not `allow`.
MODES = ("off", "warn", "ask", "enforce")
OFF, WARN, ASK, ENFORCE = MODES
