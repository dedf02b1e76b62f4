"""Git in tests of trials: the same ids wherever it runs, and all that it says of a repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "@1700000000 +0000",
    "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_COMMITTER_DATE": "@1700000000 +0000",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "LC_ALL": "C",
}
#: For the beginning of a shell script.
DATES = "".join(f"export {name}='{value}'; " for name, value in _IDENTITY.items())
_SAYS = (
    "git status --branch --porcelain; git log --all --format='%H %D %s' --topo-order; git stash list;"
    " git for-each-ref; git ls-files -s; git cat-file -p HEAD^{tree}; git fsck --no-dangling 2>&1"
)


def git(directory: Path, *words: str) -> str:
    """Run git on the host; returns what it says."""
    done = subprocess.run(
        ["git", "-C", str(directory), *words],
        env={**os.environ, **_IDENTITY},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


class _Said:
    script = f"{DATES}{_SAYS}"

    def __call__(self, directory: Path) -> str:
        """Status, log, stash, references, index and fsck of a repository on the host."""
        return subprocess.run(
            ["/bin/sh", "-c", self.script], cwd=directory, capture_output=True, text=True, check=True
        ).stdout


said = _Said()
