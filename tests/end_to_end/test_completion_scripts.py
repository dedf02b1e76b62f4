"""The scripts of `corral completion`, in the shells that they are for."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.completion import script_for

_CORRAL = Path(sys.executable).with_name("corral")
#: zsh calls these where somebody presses Tab; here they print what they would offer.
_ZSH = """
compdef() { }; compset() { }
_path_files() { print -l -- "files:$1" }
compadd() { print -l -- $completions }
_describe() { print -l -- "${completions_with_descriptions[@]%%:*}" }
source "$1"; words=("${@:2}"); CURRENT=$#words
_corral_completion
"""
#: bash takes words apart at `=` and `@`.
_BASH = r"""
compopt() { echo "files:$*"; }
source "$1"; shift
_corral_completion corral
printf '%s\n' "${COMPREPLY[@]}"
"""
_CASES = {
    ("ru",): "run",
    ("run", "--prof"): "--profile",
    ("run", "--profile", "perm"): "permissive",
    ("run", "--net", "li"): "limited",
    ("run", "--net=li"): "--net=limited",
    ("run", "--waive", "fs.deny,net.n"): "fs.deny,net.none",
    ("mcp", "install", "curs"): "cursor",
    ("run", "--allow", "@np"): "@npm",
    ("run", "--allow=@np"): "--allow=@npm",
}


def _offered(shell: str, script: Path, words: tuple[str, ...]) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    environment = {**os.environ, "PATH": f"{_CORRAL.parent}:{os.environ['PATH']}", "HOME": str(script.parent)}
    if shell == "fish":
        command = ["fish", "-c", f"source {script}; complete -C 'corral {' '.join(words)}'"]
    elif shell == "bash":
        apart = [part for word in ("corral", *words) for part in re.split("([=@]+)", word) if part]
        lines = f"COMP_WORDS=({shlex.join(apart)}); COMP_CWORD={len(apart) - 1}\n{_BASH}"
        command = ["bash", "--norc", "-c", lines, "bash", str(script)]
    else:
        command = ["zsh", "-fc", _ZSH, "zsh", str(script), "corral", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_words_options_and_values(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(script_for(shell))

    behind = "=" if shell == "bash" else ""  # it replaces what is behind the `=` alone
    assert {words: _offered(shell, script, words) for words in _CASES} == {
        words: [value.partition("=")[2] or value if behind else value] for words, value in _CASES.items()
    }


def test_fish_offers_files_behind_an_option(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(script_for("fish"))
    (tmp_path / "directory").mkdir()

    for word in ("--read ", "--read=", "--cwd="):
        before = word.strip() if "=" in word else ""
        assert _offered("fish", script, ("run", f"{word}{tmp_path}/dir")) == [
            f"{before}{tmp_path}/directory/"
        ]
