"""`corral mcp wrap -- SERVER`: run an MCP server of somebody else's in a sandbox."""

from __future__ import annotations

import os
import shutil
import tempfile

from corral.cli.run import run_request, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def wrap_server(options: Mapping[str, Any], words: tuple[str, ...]) -> int:
    """Run it on our own stdio; returns its exit status.

    TRUST: the directory in which a client starts its servers is the project, or a home. It is no business of
    most servers, so without --cwd they work in an empty directory of their own.
    """
    if options["cwd"] is not None:
        return run_request(options, words)
    for word in words:
        if not word.startswith(("-", "/")) and os.path.isfile(word):
            say(f"{word} is not visible to the server: `--cwd .` lets it work in this directory")
            break
    own = tempfile.mkdtemp(prefix="corral-mcp-")
    try:
        return run_request({**options, "cwd": own}, words)
    finally:
        shutil.rmtree(own, ignore_errors=True)
